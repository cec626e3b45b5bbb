"""What every part may use and no part owns: a task's name, JSON, the time, the size of a folder, work in a thread."""
