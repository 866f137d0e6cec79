"""HTTP to engines. The one adapter of the endpoint port lives in :mod:`stoker.endpoints.http`."""
