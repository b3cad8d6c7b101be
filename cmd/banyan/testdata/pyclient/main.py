"""The official Anthropic and OpenAI clients for Python, unchanged, against two
routers of one mesh."""
import os

import anthropic
import openai

roots = [os.environ["BASE_URL"].removesuffix("/v1"), os.environ["OTHER_URL"].removesuffix("/v1")]
key = os.environ["API_KEY"]
system = "You are careful. " * 60
messages = [{"role": "user", "content": "Hello."}]

claude = anthropic.Anthropic(base_url=roots[0], api_key=key, max_retries=0)  # sends x-api-key
whole = claude.messages.create(model="m", max_tokens=8, system=system, messages=messages)
assert whole.content[0].text and whole.stop_reason == "max_tokens", whole
prompt = whole.usage.input_tokens + (whole.usage.cache_read_input_tokens or 0)
assert prompt > 60, whole.usage

with claude.messages.stream(model="m", max_tokens=8, system=system, messages=messages) as stream:
    text = "".join(stream.text_stream)
    usage = stream.get_final_message().usage
assert text == whole.content[0].text, (text, whole)
assert usage.cache_read_input_tokens, f"the second prompt was computed anew: {usage}"

counted = claude.messages.count_tokens(model="m", system=system, messages=messages)
assert counted.input_tokens == prompt, (counted, prompt)

for wrong, error in ((dict(model="none"), anthropic.NotFoundError), (dict(max_tokens=-1), anthropic.BadRequestError)):
    try:
        claude.messages.create(**{**dict(model="m", max_tokens=8, messages=messages), **wrong})
    except error as e:
        assert e.body["type"] == "error" and e.body["error"]["message"], e.body
    else:
        raise AssertionError(f"{wrong} was answered")
try:
    anthropic.Anthropic(base_url=roots[0], api_key="wrong", max_retries=0).messages.create(model="m", max_tokens=8, messages=messages)
except anthropic.AuthenticationError as e:
    assert e.body["error"]["type"] == "authentication_error", e.body
else:
    raise AssertionError("a wrong key was accepted")

# A chain of responses lies in one replica's memory; every router finds it.
peers = [openai.OpenAI(base_url=root + "/v1", api_key=key, max_retries=0) for root in roots]
for start in range(4):
    last = peers[start % 2].responses.create(model="m", input=f"Story {start}.", instructions=system, max_output_tokens=8)
    for turn in range(3):
        client = peers[(start + turn) % 2]
        assert client.responses.retrieve(last.id).output_text == last.output_text
        if turn == 1:
            for event in client.responses.create(model="m", input="More.", previous_response_id=last.id, max_output_tokens=8, stream=True):
                if event.type == "response.completed":
                    last = event.response
        else:
            last = client.responses.create(model="m", input="More.", previous_response_id=last.id, max_output_tokens=8)
try:
    peers[0].responses.create(model="m", input="More.", previous_response_id="resp_none")
except openai.NotFoundError as e:
    assert "resp_none" in str(e), e
else:
    raise AssertionError("a response that nobody has was found")
print("python client ok")
