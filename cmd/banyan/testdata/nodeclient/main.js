// The official OpenAI client for Node, unchanged, against a router.
import OpenAI from "openai";
import assert from "node:assert/strict";

const client = new OpenAI({ baseURL: process.env.BASE_URL, apiKey: process.env.API_KEY, maxRetries: 0 });
const messages = [
  { role: "system", content: "You are careful. ".repeat(60) },
  { role: "user", content: "Hello." },
];

const models = await client.models.list();
assert.equal(models.data[0].id, "m");

const whole = await client.chat.completions.create({ model: "m", messages, max_tokens: 8 });
assert.ok(whole.choices[0].message.content.length > 0);
assert.ok(whole.usage.prompt_tokens > 0);

let text = "", chunks = 0, usage = null;
for await (const part of await client.chat.completions.create({ model: "m", messages, max_tokens: 8, stream: true })) {
  chunks++;
  text += part.choices[0]?.delta?.content ?? "";
  assert.ok(part.choices.length > 0, "a chunk without choices reached a client that did not ask for usage");
}
assert.equal(text, whole.choices[0].message.content);
assert.ok(chunks > 2);

for await (const part of await client.chat.completions.create({
  model: "m", messages, max_tokens: 8, stream: true, stream_options: { include_usage: true },
})) {
  usage = part.usage ?? usage;
}
assert.ok(usage.prompt_tokens_details.cached_tokens > 0);

const completion = await client.completions.create({ model: "m", prompt: Array.from({ length: 64 }, (_, i) => 600 + i), max_tokens: 4 });
assert.ok(completion.choices[0].text.length > 0);

await assert.rejects(client.chat.completions.create({ model: "nope", messages }), OpenAI.NotFoundError);
await assert.rejects(client.chat.completions.create({ model: "m", messages: "x" }), OpenAI.BadRequestError);
const stranger = new OpenAI({ baseURL: process.env.BASE_URL, apiKey: "wrong", maxRetries: 0 });
await assert.rejects(stranger.models.list(), OpenAI.AuthenticationError);

const aborted = new AbortController();
const stream = await client.chat.completions.create({ model: "m", messages, max_tokens: 400, stream: true }, { signal: aborted.signal });
for await (const _ of stream) { aborted.abort(); break; }
console.log("node client ok");
