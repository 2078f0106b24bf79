"""Compares the values of a server with what copal schema says of their types.

check.py URL SCHEMA TYPESCRIPT: each value is validated against SCHEMA, a file of copal schema --json-schema, and stands in
the file TYPESCRIPT as a constant of its type, for tsc to check.
"""
import json
import sys
import urllib.parse
import urllib.request

from jsonschema import Draft202012Validator

url, schema_file, typescript = sys.argv[1:]


def get(path, **headers):
    return urllib.request.urlopen(urllib.request.Request(url + path, headers=headers)).read().decode()


schema = json.load(open(schema_file))
Draft202012Validator.check_schema(schema)
paths = json.loads(get("/openapi.json"))["paths"]
values = wrong = 0
lines = []
for each in json.loads(get("/v1/maps"))["maps"]:
    path = "/v1/maps/" + urllib.parse.quote(each["name"], safe="")
    if path + "/{key}" not in paths:
        continue
    body = paths[path + "/{key}"]["put"]["requestBody"]["content"]["application/json"]["schema"]
    name = body["$ref"].rsplit("/", 1)[1]
    validator = Draft202012Validator({"$ref": "#/$defs/" + name, "$defs": schema["$defs"]})
    for line in get(path, Accept="application/x-ndjson").splitlines():
        entry = json.loads(line)
        if "value" not in entry:
            continue
        values += 1
        lines.append(f"export const v{values}: types.{name} = {json.dumps(entry['value'])};")
        for error in validator.iter_errors(entry["value"]):
            wrong += 1
            print(f"{each['name']} {entry['key']!r}: {error.message}", file=sys.stderr)
    if validator.is_valid(True):  # which is a value of none of the types
        wrong += 1
        print(f"anything is a value of {each['name']}", file=sys.stderr)
open(typescript, "w").write('import type * as types from "./types";\n' + "\n".join(lines) + "\n")
print(f"{values} values, {wrong} of them do not fit")
sys.exit(wrong > 0 or values < 600)
