"""Types of the native module; structured values cross the boundary as JSON text."""

__version__: str
