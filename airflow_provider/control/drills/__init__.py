"""Recovery drills: whom they hit, when they may, what is injected, what has to follow."""
