"""Asks once through a vendor's own library: `ask.py VENDOR ADDRESS KEY`, the request on stdin."""

import json
import sys

vendor, address, key = sys.argv[1:]
request = json.load(sys.stdin)
if vendor in ("openai", "openai-responses"):
    import openai

    client = openai.OpenAI(base_url=address, api_key=key, max_retries=0)
    if vendor == "openai":
        client.chat.completions.create(**request)
    else:
        client.responses.create(**request)
else:
    import anthropic

    client = anthropic.Anthropic(base_url=address, api_key=key, max_retries=0)
    client.messages.create(**request)
