"""Reading of OpenAPI and Swagger documents: one section for each operation."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any
from urllib.parse import unquote

from uec_rag.documents.document import Block, Content, Heading, Page, Table
from uec_rag.documents.markdown import load_yaml

_METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace", "query")
_DEEPEST = 6  # schemas in each other
_MOST_FIELDS = 200  # of a body
_LONGEST_CHAIN = 20  # of references
_FIELDS = ("Field", "Type", "Required", "Description")
_PARTS = ("allOf", "oneOf", "anyOf")
_LIMITS = ("default", "const", "minimum", "maximum", "minLength", "maxLength", "pattern")
_ELSEWHERE = re.compile(r"\$ref[\"']?\s*:\s*[\"']?[^\s\"'#]")

Node = Mapping[str, Any]


def read_openapi(text: str) -> Content:
    """Read what an interface offers: its operations, with parameters, bodies and responses."""
    root = _node(json.loads(text) if text.lstrip().startswith("{") else load_yaml(text))
    if not {"openapi", "swagger"} & root.keys():
        raise ValueError("it does not describe an interface as OpenAPI does")
    about = _node(root.get("info"))
    blocks: list[Block] = [_said(about, "summary"), _said(about, "description")]
    servers = [_said(server, "url") for server in _nodes(root.get("servers"))]
    servers += [f"{root['host']}{root.get('basePath', '')}"] if "host" in root else []
    blocks += [f"Server: {server}" for server in servers]
    for item_of in ("paths", "webhooks"):
        for path, value in _node(root.get(item_of)).items():
            item = _resolve(root, value)
            for method in (name for name in _METHODS if isinstance(item.get(name), dict)):
                blocks.append(Heading(f"{method.upper()} {path}", 2))
                blocks += _operation(root, item, item[method])
    schemes = _node(root.get("components")).get("securitySchemes", root.get("securityDefinitions"))
    resolved = [(name, _resolve(root, scheme)) for name, scheme in _node(schemes).items()]
    rows = [(name, _said(part, "type"), _said(part, "description")) for name, part in resolved]
    if rows:
        blocks += [Heading("Authentication", 2), *_table("", ("Name", "Type", "Description"), rows)]
    left_out = {"reference to another file": len(_ELSEWHERE.findall(text))}
    return Content([Page(blocks)], _said(about, "title"), left_out=left_out)


def _operation(root: Node, item: Node, operation: Node) -> Iterator[Block]:
    yield "Deprecated." if operation.get("deprecated") is True else ""
    yield _said(operation, "summary")
    yield _said(operation, "description")
    if schemes := [name for parameter in _nodes(operation.get("security")) for name in parameter]:
        yield f"Authentication: {' or '.join(map(str, schemes))}"
    parameters = [*_nodes(item.get("parameters")), *_nodes(operation.get("parameters"))]
    resolved = [_resolve(root, parameter) for parameter in parameters]
    by_place = {(_said(part, "name"), _said(part, "in")): part for part in resolved}
    bodies = [by_place.pop(key) for key in [*by_place] if key[1] == "body"]  # of Swagger
    rows = list[tuple[str, ...]]()
    for key, part in by_place.items():
        requirement = "yes" if part.get("required") is True else ""
        rows.append((*key, _type(root, _schema(part)), requirement, _said(part, "description")))
    yield from _table("Parameters", ("Name", "In", "Type", "Required", "Description"), rows)
    for body in [*bodies, _resolve(root, operation.get("requestBody"))]:
        yield from _body(root, "Request body", body)
    for status, response in _node(operation.get("responses")).items():
        yield from _body(root, f"Response {status}", _resolve(root, response))


def _body(root: Node, title: str, body: Node) -> Iterator[Block]:
    """Yield what is said of a body, and its fields, or its type if it has none."""
    if description := _said(body, "description"):
        yield f"{title}: {description}"
    if schema := _schema(body):
        forms = ", ".join(map(str, _node(body.get("content"))))
        yield f"{title}: {' of '.join(filter(None, (forms, _type(root, schema))))}"
        yield from _table("", _FIELDS, [*islice(_fields(root, schema), _MOST_FIELDS)])


def _schema(owner: Node) -> Node:
    """Return the schema of a parameter or a body, which may be one for each media type."""
    media = next(iter(_nodes([*_node(owner.get("content")).values()])), {})
    plain = owner if "type" in owner or "enum" in owner else {}  # a parameter of Swagger
    return _node(owner.get("schema")) or _node(media.get("schema")) or plain


def _fields(
    root: Node, schema: Node, above: str = "", visited: tuple[str, ...] = ()
) -> Iterator[tuple[str, ...]]:
    """Yield the fields of a schema and of those in it, unless it is within itself."""
    reference = str(schema.get("$ref", ""))
    if len(visited) > _DEEPEST or (reference and reference in visited):
        return
    visited = (*visited, reference)
    schema = _resolve(root, schema)
    parts = [element for kind in _PARTS for element in _nodes(schema.get(kind))]
    for part in (*parts, _node(schema.get("items"))):
        yield from _fields(root, part, above, visited)
    for name, field in _node(schema.get("properties")).items():
        target, path = _resolve(root, field), f"{above}{name}"
        requirement = "yes" if name in _list(schema.get("required")) else ""
        yield path, _type(root, _node(field)), requirement, _said(target, "description")
        yield from _fields(root, _node(field), f"{path}.", visited)


def _type(root: Node, schema: Node, depth: int = 0) -> str:
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    schema = _resolve(root, schema)
    kind = " or ".join(map(str, _list(schema.get("type")))) or _said(schema, "type")
    if kind == "array" and depth < _DEEPEST:
        kind = f"array of {_type(root, _node(schema.get('items')), depth + 1)}"
    options = [*_nodes(schema.get("oneOf")), *_nodes(schema.get("anyOf"))]
    if options and depth < _DEEPEST:
        kind = " or ".join(_type(root, option, depth + 1) for option in options[:_DEEPEST])
    kind = (name if kind in ("", "object") else kind) or kind or "any"
    values = ", ".join(map(str, _list(schema.get("enum"))[:_MOST_FIELDS]))
    limits = [_said(schema, "format"), f"one of {values}" if values else ""]
    limits += [f"{limit} {schema[limit]}" for limit in _LIMITS if limit in schema]
    limits_text = "; ".join(filter(None, limits))
    return f"{kind} ({limits_text})" if limits_text else kind


def _resolve(root: Node, value: object) -> Node:
    """Follow the references of a part within its document; empty if they lead nowhere."""
    for _ in range(_LONGEST_CHAIN):
        reference = _node(value).get("$ref")
        if not isinstance(reference, str):
            return _node(value)
        value = root if reference.startswith("#/") else None
        for part in reference[2:].split("/"):
            value = _node(value).get(unquote(part).replace("~1", "/").replace("~0", "~"))
    return {}


def _table(title: str, names: Sequence[str], rows: Sequence[tuple[str, ...]]) -> list[Block]:
    lines = tuple(tuple(" ".join(cell.split()) for cell in row) for row in rows)
    return [Table((title,) if title else (), tuple(names), lines)] if rows else []


def _said(node: Node, key: str) -> str:
    value = node.get(key)
    return "" if value is None or isinstance(value, dict | list) else str(value).strip()


def _node(value: object) -> Node:
    return value if isinstance(value, dict) else {}


def _nodes(value: object) -> list[Node]:
    return [node for node in _list(value) if isinstance(node, dict)]


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
