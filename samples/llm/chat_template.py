"""The chat template of a tokenizer as pieces that need no template language: texts between the messages, by the roles around them.

pieces(tokenizer) gives {"start": {role: text}, "between": {"role role": text}, "end": {role: text}, "strip": bool}, and "": a conversation is start[first role],
its messages' contents with between[role, next role], then end[last role], which opens the answer. Or None and why not: the pieces are compared with
the template on conversations, and are given only where all are equal.
"""
SHAPES = [["user"], ["system", "user"], ["user", "assistant", "user"], ["system", "user", "assistant", "user"], ["user", "assistant", "user", "assistant", "user"],
          ["system", "user", "assistant", "user", "assistant", "user"], ["user", "user"], ["user", "assistant"], ["system", "user", "user", "assistant"]]


def contents(roles, spaces):
    return [(" " if spaces and i % 2 else "") + f"zq{i}x{role}qz" + ("\n" if spaces and i % 3 == 0 else "") for i, role in enumerate(roles)]


def rendered(tokenizer, roles, spaces=False):
    """The template's text for messages of these roles; None where it takes no such conversation."""
    messages = [{"role": r, "content": c} for r, c in zip(roles, contents(roles, spaces))]
    try:
        return tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    except Exception:  # jinja2's errors and those that templates raise
        return None


def assembled(table, roles, texts):
    if table["strip"]:
        texts = [t.strip() for t in texts]
    out = table["start"].get(roles[0])
    for i, (role, text) in enumerate(zip(roles, texts)):
        after = table["end"].get(role) if i + 1 == len(roles) else table["between"].get(f"{role} {roles[i + 1]}")
        if out is None or after is None:
            return None
        out += text + after
    return out


def pieces(tokenizer):
    if not getattr(tokenizer, "chat_template", None):
        return None, "the tokenizer has none"
    table = {"start": {}, "between": {}, "end": {}, "strip": False}
    for roles in SHAPES:
        rest = rendered(tokenizer, roles)
        if rest is None:
            continue
        texts = contents(roles, False)
        found = []
        for text in texts:
            if rest.count(text) != 1:
                return None, f"a conversation of {', '.join(roles)} does not show each message once"
            before, rest = rest.split(text)
            found.append(before)
        table["start"].setdefault(roles[0], found[0])
        for a, b, text in zip(roles, roles[1:], found[1:]):
            table["between"].setdefault(f"{a} {b}", text)
        table["end"].setdefault(roles[-1], rest)
    if "user" not in table["start"] or "user" not in table["end"]:
        return None, "it does not take a message of a user alone"
    spaced = rendered(tokenizer, ["user"], True)
    table["strip"] = spaced is not None and spaced != assembled(table, ["user"], contents(["user"], True))
    for roles in SHAPES:
        for spaces in (False, True):
            wanted = rendered(tokenizer, roles, spaces)
            if wanted is not None and assembled(table, roles, contents(roles, spaces)) != wanted:
                return None, f"the texts around messages depend on more than the roles beside them ({', '.join(roles)})"
    return table, ""
