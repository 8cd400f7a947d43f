"""aotc package and verify-package: contents, signatures beside OpenSSF's model_signing, OCI layout, the same bytes anywhere, damage.

    package.py --aotc BIN --device BIN --work DIR [name ...]

AOTC_PACKAGE_VENV (packaging/setup.sh) has cyclonedx-python-lib and model-signing; checks that need one of them are skipped where it is absent.
"""
import base64
import glob
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tarfile

import jsonschema
from ci_case import main, test
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT4

TOOLS = os.environ.get("AOTC_PACKAGE_VENV") or os.path.expanduser("~/.cache/aotc/package")
ALL = ["LICENSES/Apache-2.0.txt", "LICENSES/NOTICE", "SHA256SUMS", "net.h", "net.report.json", "net.so", "provenance.intoto.json", "sbom.cdx.json"]


def tool(name):
    """A program of VENV, or None."""
    path = os.path.join(TOOLS, "bin", name)
    if os.access(path, os.X_OK):
        return path
    print(f"skipped: {name} is not in {TOOLS} (packaging/setup.sh)")
    return None


def packed(c, *words, name="net", folder=".", pt2=None):
    so = c.built(pt2 or c.net(), os.path.join(folder, name))
    out = c.at(folder, name + ".aotcpkg.tar")
    c.run("package", so, "-o", out, "--quiet", *words)
    return so, out


def keys(c, name="key", curve="prime256v1"):
    private, public = c.at(name + ".pem"), c.at(name + ".pub")
    subprocess.run(["openssl", "ecparam", "-name", curve, "-genkey", "-noout", "-out", private], check=True, capture_output=True)
    subprocess.run(["openssl", "ec", "-in", private, "-pubout", "-out", public], check=True, capture_output=True)
    return private, public


def digest(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def unpacked(c, package, name="unpacked"):
    with tarfile.open(package) as t:
        assert all(m.isfile() and (m.mtime, m.uid, m.gid, m.mode) == (0, 0, 0, 0o644) for m in t.getmembers())
        names = t.getnames()
        t.extractall(c.at(name))
    assert names == sorted(names)
    return names


def refused(c, text, *words, exit_code=1, tool=None):
    r = c.run(*words, exit_code=exit_code, tool=tool)
    assert text in r.stderr, r.stderr
    return r


@test
def what_is_in_it(c):
    pt2 = c.net()
    with open(c.at("MODEL-LICENSE"), "w") as f:
        f.write("as you like\n" * 300_000)  # above 1 MB, where libcrypto hashes
    so = c.built(pt2)
    told = c.json("package", "package", so, "-o", c.at("net.aotcpkg.tar"), "--source", pt2, "--license", c.at("MODEL-LICENSE"),
                  "--builder", "https://example.org/ci")
    assert unpacked(c, told["package"]) == sorted([*ALL, "LICENSES/MODEL-LICENSE"])
    for f in told["files"]:
        assert (f["bytes"], f["sha256"]) == (os.path.getsize(c.at("unpacked", f["name"])), digest(c.at("unpacked", f["name"])))
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=c.at("unpacked"), check=True)
    for name in ("net.so", "net.h"):
        assert digest(c.at("unpacked", name)) == digest(c.at(name))
    with open(c.at("unpacked", "provenance.intoto.json")) as f:
        said = json.load(f)
    assert said["_type"] == "https://in-toto.io/Statement/v1" and said["predicateType"] == "https://slsa.dev/provenance/v1"
    assert said["subject"] == [{"name": "net.so", "digest": {"sha256": digest(so)}}]
    assert said["predicate"]["runDetails"]["builder"]["id"] == "https://example.org/ci"
    source = said["predicate"]["buildDefinition"]["resolvedDependencies"][0]
    assert source == {"name": "net.pt2", "digest": {"sha256": digest(pt2)}}
    with open(c.at("unpacked", "net.report.json")) as f:
        report = json.load(f)
    assert report["artifact"] == "net.so" and not {"seconds", "phases", "objects"} & set(report)
    for device in (None, c.device):
        checked = c.json("verify-package", "verify-package", told["package"], tool=device)
        assert checked["signature"] == "none" and checked["artifact"] == "net.so" and len(checked["files"]) == len(told["files"]) - 1
    c.run("verify-package", told["package"], "--extract", c.at("out"), "--quiet", tool=c.device)
    assert digest(c.at("out", "net.so")) == digest(so)
    c.run("verify-package", c.at("out"), "--quiet", tool=c.device)
    c.run("probe", c.at("out", "net.so"), tool=c.device)


def schema_folder():
    found = glob.glob(os.path.join(TOOLS, "lib", "python3*", "site-packages", "cyclonedx", "schema", "_res"))
    return found[0] if found else None


@test
def the_sbom_is_cyclonedx(c):
    folder = schema_folder()
    if not folder:
        print(f"skipped: cyclonedx-python-lib is not in {TOOLS} (packaging/setup.sh)")
        return

    def read(uri):
        with open(os.path.join(folder, re.sub(r"(\.SNAPSHOT)?\.schema\.json$", ".SNAPSHOT.schema.json", uri.rsplit("/", 1)[-1]))) as f:
            return Resource.from_contents(json.load(f))

    schema = read("bom-1.6.schema.json").contents
    for words in ((), ("--weights-file",)):
        so = c.built(c.net(), "net", *words)
        c.run("package", so, "-o", c.at("net.aotcpkg.tar"), "--quiet")
        names = unpacked(c, c.at("net.aotcpkg.tar"), "with" + "".join(words))
        with open(c.at("with" + "".join(words), "sbom.cdx.json")) as f:
            sbom = json.load(f)
        jsonschema.Draft7Validator(schema, registry=Registry(retrieve=read), format_checker=jsonschema.FormatChecker()).validate(sbom)
        refs = {x["bom-ref"] for x in sbom["components"]}
        assert set(sbom["dependencies"][0]["dependsOn"]) == refs and {"aotc-runtime", "aotc-kernels"} < refs
        assert ("net.weights" in names) == bool(words) == ("file/net.weights" in refs)


@test
def kernels_of_ones_own_are_listed(c):
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    shutil.copytree(os.path.join(root, "samples", "custom_kernel"), c.at("sample"))
    subprocess.run([sys.executable, "-IS", os.path.join(root, "tests", "torch_process.py"), "export.py"], cwd=c.at("sample"), check=True, capture_output=True)
    so = c.built(c.at("sample", "net.pt2"), "net", "--kernels", c.at("sample", "kernels.json"))
    c.run("package", so, "-o", c.at("net.aotcpkg.tar"), "--quiet")
    unpacked(c, c.at("net.aotcpkg.tar"))
    with open(c.at("unpacked", "sbom.cdx.json")) as f:
        refs = {x["bom-ref"] for x in json.load(f)["components"]}
    with open(c.at("unpacked", "LICENSES", "NOTICE")) as f:
        notice = f.read()
    assert {"own-kernels/lookup.c", "own-kernels/ranked.cpp"} < refs and "lookup.c: kernels of the user's own" in notice, (refs, notice)


@test
def the_same_bytes_in_other_folders_at_other_times(c):
    pt2, made = c.net(), []
    for i, folder in enumerate(("one", os.path.join("two", "deeper"))):
        os.makedirs(c.at(folder))
        shutil.copy(pt2, c.at(folder, "net.pt2"))
        cache = ["--cache", c.at(f"cache{i}")]
        subprocess.run([c.aotc, "build", "net.pt2", "--cpu", "avx2", "--quiet", *cache], cwd=c.at(folder), check=True)
        subprocess.run([c.aotc, "package", "net.so", "--source", "net.pt2", "--quiet", "--oci", "oci", "-o", "net.aotcpkg.tar"], cwd=c.at(folder),
                       check=True, env={**os.environ, "TZ": f"UTC{i}"})
        files = [os.path.join(d, f) for d, _, fs in os.walk(c.at(folder, "oci")) for f in fs]
        made.append((digest(c.at(folder, "net.aotcpkg.tar")), sorted((os.path.relpath(f, c.at(folder)), digest(f)) for f in files)))
    assert made[0] == made[1], made


@test
def no_damage_passes(c):
    private, public = keys(c)
    _, plain = packed(c)
    _, signed = packed(c, "--sign", private, name="signed")
    draw = random.Random(7)
    for package, words, count in ((plain, [], 500), (signed, ["--key", public], 500)):
        c.run("verify-package", package, *words, "--quiet", tool=c.device)
        with open(package, "rb") as f:
            whole = f.read()
        # The artifact takes most of the bytes: half of the flips are drawn of all, half of what is not of it.
        so = whole.index(b"\x7fELF")
        size = int(whole[so - 512 + 124:so - 512 + 135], 8)
        for i in range(count):
            at = draw.randrange(len(whole)) if i % 2 else draw.choice((draw.randrange(so), draw.randrange(so + size, len(whole))))
            flipped = bytearray(whole)
            flipped[at] ^= draw.randrange(1, 256)
            with open(c.at("flipped"), "wb") as f:
                f.write(flipped)
            r = subprocess.run([c.device, "verify-package", c.at("flipped"), *words], capture_output=True, text=True)
            assert r.returncode == 1, (package, at, r.returncode, r.stdout, r.stderr)
    for n in (0, 1, 511, 512, len(whole) - 1024, len(whole) - 1):
        with open(c.at("cut"), "wb") as f:
            f.write(whole[:n])
        refused(c, "is no package of aotc", "verify-package", c.at("cut"), tool=c.device)
    with open(c.at("longer"), "wb") as f:
        f.write(whole + bytes(512))
    refused(c, "does not end as packages do", "verify-package", c.at("longer"), "--extract", c.at("none"), tool=c.device)
    assert not os.path.exists(c.at("none"))


@test
def signatures(c):
    private, public = keys(c)
    other, other_public = keys(c, "other")
    so, package = packed(c, "--sign", private)
    checked = c.json("verify-package", "verify-package", package, "--key", public, tool=c.device)
    with open(public, "rb") as f:
        assert (checked["signature"], checked["key"]) == ("verified", hashlib.sha256(f.read()).hexdigest())
    assert c.json("verify-package", "verify-package", package)["signature"] == "unchecked"
    refused(c, "signed with another key", "verify-package", package, "--key", other_public)
    c.run("package", so, "-o", c.at("plain.tar"), "--quiet")
    refused(c, "is not signed", "verify-package", c.at("plain.tar"), "--key", public)
    # A signature of other files, one whose hint lies, and files beside those that were signed.
    unpacked(c, package)
    with open(c.at("unpacked", "model.sig")) as f:
        bundle = json.load(f)
    with open(other_public, "rb") as f:
        bundle["verificationMaterial"]["publicKey"]["hint"] = hashlib.sha256(f.read()).hexdigest()
    with open(c.at("unpacked", "model.sig"), "w") as f:
        json.dump(bundle, f)
    refused(c, "this key did not make", "verify-package", c.at("unpacked"), "--key", other_public)
    statement = json.loads(base64.b64decode(bundle["dsseEnvelope"]["payload"]))
    statement["predicate"]["resources"][0]["digest"] = "0" * 64
    bundle["dsseEnvelope"]["payload"] = base64.b64encode(json.dumps(statement).encode()).decode()
    with open(c.at("unpacked", "model.sig"), "w") as f:
        json.dump(bundle, f)
    refused(c, "is about other files", "verify-package", c.at("unpacked"), "--key", public)
    with open(c.at("unpacked", "more"), "w") as f:
        f.write("x")
    refused(c, "'more' has the hash", "verify-package", c.at("unpacked"))
    for text, path, code in (("no private key", public, 3), ("no such file", c.at("none"), 6), ("no private key", so, 3)):
        refused(c, text, "package", so, "-o", c.at("x.tar"), "--sign", path, exit_code=code)
    refused(c, "another kind than P-256", "package", so, "-o", c.at("x.tar"), "--sign", keys(c, "koblitz", "secp256k1")[0], exit_code=3)
    subprocess.run(["openssl", "genrsa", "-out", c.at("rsa.pem"), "2048"], check=True, capture_output=True)
    refused(c, "another kind than P-256", "package", so, "-o", c.at("x.tar"), "--sign", c.at("rsa.pem"), exit_code=3)
    subprocess.run(["openssl", "ec", "-in", private, "-aes128", "-passout", "pass:x", "-out", c.at("locked.pem")], check=True, capture_output=True)
    refused(c, "no private key", "package", so, "-o", c.at("x.tar"), "--sign", c.at("locked.pem"), exit_code=3)
    assert not os.path.exists(c.at("x.tar"))


@test
def documents_of_anyone(c):
    _, package = packed(c)
    unpacked(c, package)
    deep = "[" * 200_000
    hostile = ["", "{", "[]", "null", deep, '{"subject":' + deep, '{"subject":[' + deep + deep.replace("[", "]") + "]}"]
    hostile += ['{"subject":[{}]}', '{"subject":{"name":1}}', '{"subject":[{"name":"net.so","digest":{"sha256":"' + "0" * 64 + '"}}]}']
    for name in ("provenance.intoto.json", "model.sig"):
        for text in hostile:
            with open(c.at("unpacked", name), "w") as f:
                f.write(text)
            names = sorted(n for n in ALL if n != "SHA256SUMS")
            with open(c.at("unpacked", "SHA256SUMS"), "w") as f:
                f.writelines(f"{digest(c.at('unpacked', n))}  {n}\n" for n in names)
            refused(c, "has a ", "verify-package", c.at("unpacked"), tool=c.device)
        unpacked(c, package)


@test
def model_signing_agrees(c):
    model_signing = tool("model_signing")
    if not model_signing:
        return

    def theirs(folder, public, good=True):
        words = [model_signing, "verify", "key", folder, "--signature", os.path.join(folder, "model.sig"), "--public_key", public]
        r = subprocess.run(words, capture_output=True, text=True)
        assert (r.returncode == 0) == good, r.stdout + r.stderr

    for curve in ("prime256v1", "secp384r1", "secp521r1"):
        private, public = keys(c, curve, curve)
        _, package = packed(c, "--sign", private, name=curve)
        folder = c.at("folder_" + curve)
        unpacked(c, package, folder)
        theirs(folder, public)
        c.run("verify-package", package, "--key", public, "--quiet", tool=c.device)
        # One that they made.
        os.remove(os.path.join(folder, "model.sig"))
        subprocess.run([model_signing, "sign", "key", folder, "--signature", os.path.join(folder, "model.sig"), "--private_key", private], check=True,
                       capture_output=True)
        assert c.json("verify-package", "verify-package", folder, "--key", public, tool=c.device)["signature"] == "verified"
        with open(os.path.join(folder, curve + ".so"), "r+b") as f:
            f.seek(1000)
            f.write(b"\xff")
        theirs(folder, public, good=False)
        refused(c, "is damaged", "verify-package", folder, "--key", public, tool=c.device)


@test
def the_oci_layout(c):
    """As image-spec 1.1 has it: image-layout.md, manifest.md (artifacts), descriptor.md."""
    private, _ = keys(c)
    so = c.built(c.net())
    told = c.json("package", "package", so, "--oci", c.at("oci"), "--sign", private)
    assert "package" not in told and sorted(os.listdir(c.at("oci"))) == ["blobs", "index.json", "oci-layout"]

    def load(*names):
        with open(c.at("oci", *names)) as f:
            return json.load(f)

    seen = set()

    def blob(d):
        assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}/[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}", d["mediaType"])
        algorithm, value = d["digest"].split(":")
        path = c.at("oci", "blobs", algorithm, value)
        assert algorithm == "sha256" and digest(path) == value and os.path.getsize(path) == d["size"]
        seen.add(value)
        return path

    assert load("oci-layout") == {"imageLayoutVersion": "1.0.0"}
    index = load("index.json")
    assert index["schemaVersion"] == 2 and len(index["manifests"]) == 1
    descriptor = index["manifests"][0]
    assert descriptor["digest"] == told["oci"]["manifest"]
    with open(blob(descriptor)) as f:
        manifest = json.load(f)
    assert manifest["mediaType"] == descriptor["mediaType"] == "application/vnd.oci.image.manifest.v1+json"
    assert manifest["artifactType"] and manifest["config"]["mediaType"] == "application/vnd.oci.empty.v1+json"
    with open(blob(manifest["config"]), "rb") as f:
        assert f.read() == base64.b64decode(manifest["config"]["data"]) == b"{}"
    os.makedirs(c.at("pulled", "LICENSES"))
    for layer in manifest["layers"]:
        shutil.copy(blob(layer), c.at("pulled", layer["annotations"]["org.opencontainers.image.title"]))
    assert seen == set(os.listdir(c.at("oci", "blobs", "sha256")))
    assert c.json("verify-package", "verify-package", c.at("pulled"))["signature"] == "unchecked"
    folder = "/usr/share/gocode/src/github.com/opencontainers/image-spec/schema"  # Debian: golang-github-opencontainers-image-spec-dev
    if os.path.isdir(folder):
        def read(uri):
            with open(os.path.join(folder, uri.rsplit("/", 1)[-1])) as f:
                text = re.sub(r'^ *"id": "https.*$', "", f.read(), flags=re.M)  # which do not name the files
            return Resource(json.loads(text), DRAFT4)

        for name, value in (("layout", load("oci-layout")), ("index", index), ("manifest", manifest)):
            jsonschema.Draft4Validator(read(f"image-{name}-schema.json").contents, registry=Registry(retrieve=read)).validate(value)
    else:
        print("skipped: the schemas of image-spec are not there")
    if shutil.which("skopeo"):
        subprocess.run(["skopeo", "copy", "oci:" + c.at("oci"), "oci:" + c.at("copy") + ":net"], check=True, capture_output=True)
    else:
        print("skipped: skopeo is not there")


@test
def what_is_refused(c):
    so = c.built(c.net())
    other = c.net("other", depth=2, seed=1)
    refused(c, "is not what", "package", so, "-o", c.at("p.tar"), "--source", other, exit_code=3)
    refused(c, "would be overwritten", "package", so, "-o", c.at("net.h"), exit_code=2)
    refused(c, "is there already", "package", so, "--oci", c.folder, exit_code=6)
    refused(c, "no such file", "package", c.at("none.so"), exit_code=6)
    with open(c.at("LICENSE"), "w") as f:
        f.write("mine\n")
    refused(c, "stand in the package twice", "package", so, "-o", c.at("p.tar"), *["--license", c.at("LICENSE")] * 2, exit_code=2)
    os.rename(c.at("net.h"), c.at("kept.h"))
    refused(c, "net.h", "package", so, "-o", c.at("p.tar"), exit_code=6)
    os.rename(c.at("kept.h"), c.at("net.h"))
    c.built(other, "other")
    shutil.copy(c.at("other.report.json"), c.at("net.report.json"))
    refused(c, "of another build", "package", so, "-o", c.at("p.tar"), exit_code=3)
    shutil.copy(c.at("other.so"), c.at("hurt.so"))
    with open(c.at("hurt.so"), "r+b") as f:
        f.seek(os.path.getsize(c.at("hurt.so")) // 2)
        f.write(b"\xff\xfe\xfd\xfc")
    refused(c, "damaged", "package", c.at("hurt.so"), "-o", c.at("p.tar"), exit_code=3)
    assert not os.path.exists(c.at("p.tar"))
    for entry, kind in (("../out", tarfile.REGTYPE), ("link", tarfile.SYMTYPE), ("/abs", tarfile.REGTYPE)):
        with tarfile.open(c.at("hostile.tar"), "w", format=tarfile.USTAR_FORMAT) as t:
            member = tarfile.TarInfo(entry)
            member.type = kind
            member.linkname = "/etc/passwd" if kind == tarfile.SYMTYPE else ""
            t.addfile(member)
        refused(c, "none that aotc writes", "verify-package", c.at("hostile.tar"), "--extract", c.at("hostile"), tool=c.device)
        assert not os.path.exists(c.at("hostile"))


if __name__ == "__main__":
    main()
