"""JSON of aotc against schemas/: each names the others by their file."""
import json
import os

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "schemas")


def schema_of(name):
    with open(os.path.join(FOLDER, name + ".schema.json")) as f:
        return json.load(f)


def validate(name, value):
    """Raises where the value is not what schemas/NAME.schema.json says."""
    import jsonschema
    from referencing import Registry, Resource

    registry = Registry(retrieve=lambda uri: Resource.from_contents(schema_of(uri.rsplit("/", 1)[-1].removesuffix(".schema.json"))))
    schema = schema_of(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema, registry=registry).validate(value)
