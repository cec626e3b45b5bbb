"""What a store holds of a key: asked through ``<app>-lookups``, answered by whoever has a copy of the task."""
