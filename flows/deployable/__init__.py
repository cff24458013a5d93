"""The flows as Prefect's objects, a module each: whoever runs one does not wait for forms to be made of the others."""
