"""The part of JSON Schema that schemas/gpu-check.schema.json uses."""

KINDS = {'object': dict, 'array': list, 'string': str, 'boolean': bool, 'null': type(None)}
KNOWN = {'$schema', 'title', 'description', 'type', 'const', 'enum', 'required', 'properties', 'additionalProperties',
         'items'}


def is_kind(value, kind):
    if kind in ('number', 'integer'):
        return isinstance(value, int if kind == 'integer' else (int, float)) and not isinstance(value, bool)
    return isinstance(value, KINDS[kind])


def problems(value, schema, place='$'):
    """Yields a sentence for each place where the value breaks the schema."""
    unknown = schema.keys() - KNOWN
    assert not unknown, f'json_schema.py does not know {unknown}'
    kinds = schema.get('type', [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(is_kind(value, kind) for kind in kinds):
        yield f'{place} is {value!r:.80}, not {kinds}'
        return
    if 'const' in schema and value != schema['const']:
        yield f"{place} is {value!r}, not {schema['const']!r}"
    if 'enum' in schema and value not in schema['enum']:
        yield f"{place} is {value!r}, not one of {schema['enum']}"
    if isinstance(value, dict):
        properties = schema.get('properties', {})
        yield from (f'{place} has no {name}' for name in schema.get('required', []) if name not in value)
        for name, member in value.items():
            if name in properties:
                yield from problems(member, properties[name], f'{place}.{name}')
            elif schema.get('additionalProperties', True) is False:
                yield f'{place} has {name}, which the schema does not know'
    if isinstance(value, list) and 'items' in schema:
        for i, member in enumerate(value):
            yield from problems(member, schema['items'], f'{place}[{i}]')
