"""The schema of shapes.json and its reader agree: accepted/ passes both, refused/ neither, inconsistent/ only the schema."""
import json
import pathlib
import subprocess
import sys

try:
    import jsonschema
except ImportError:
    sys.exit(77)

checker, schema_path, root = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
schema = json.loads(pathlib.Path(schema_path).read_text())
jsonschema.Draft202012Validator.check_schema(schema)
validator = jsonschema.Draft202012Validator(schema)
EXPECTED = {"accepted": (True, True), "refused": (False, False), "inconsistent": (True, False)}

cases = [(case, expected) for folder, expected in EXPECTED.items() for case in sorted((root / folder).glob("*.json"))]
read = subprocess.run([checker, *(case for case, _ in cases)], capture_output=True, text=True)
lines = read.stdout.splitlines()
faults = []
for case, expected in cases:
    accepted = f"{case}: ok" in lines
    got = (validator.is_valid(json.loads(case.read_text())), accepted)
    if got != expected:
        faults.append(f"{case}: (schema, reader) accept: {got}, expected {expected}")
    if not accepted and not any(line.startswith(f"{case}: ") for line in lines):
        faults.append(f"{case}: no message names the file")
print("\n".join(faults) or f"{len(cases)} files agree")
sys.exit(bool(faults) or len(cases) < 20)
