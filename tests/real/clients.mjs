// Drives a server through the JavaScript SDKs that its users have, and exits with 1 if any of them fails.
//
//     node clients.mjs http://127.0.0.1:PORT [MODEL]
//
// Run from the folder that holds node_modules.

import assert from 'node:assert/strict'
import OpenAI from 'openai'
import Anthropic from '@anthropic-ai/sdk'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { generateText, streamText } from 'ai'

const [base, model = 'tiny'] = process.argv.slice(2)
const messages = [{ role: 'user', content: 'hello there' }]
const limits = { model, messages, max_tokens: 6, temperature: 0 }
let failed = 0

async function check(name, test) {
  try {
    console.log(`ok      ${name}: ${JSON.stringify(await test()).slice(0, 100)}`)
  } catch (error) {
    failed += 1
    console.log(`FAILED  ${name}: ${error.constructor.name}: ${String(error.message).slice(0, 600)}`)
  }
}

async function collect(stream, text) {
  let all = ''
  for await (const part of stream) all += text(part) ?? ''
  return all
}

const openai = new OpenAI({ baseURL: `${base}/v1`, apiKey: 'none', maxRetries: 0 })
const anthropic = new Anthropic({ baseURL: base, apiKey: 'none', maxRetries: 0 })
const compatible = createOpenAICompatible({ name: 'sluicegate', baseURL: `${base}/v1`, apiKey: 'none' })
const prompt = { model: compatible(model), prompt: 'hi', maxOutputTokens: 6, temperature: 0, maxRetries: 0 }

await check('openai chat', async () => {
  const answer = await openai.chat.completions.create(limits)
  assert.ok(answer.choices[0].message.content)
  return answer.choices[0].message.content
})
await check('openai chat streamed says the same', async () => {
  const stream = await openai.chat.completions.create({ ...limits, stream: true })
  const text = await collect(stream, (chunk) => chunk.choices[0]?.delta?.content)
  assert.equal(text, (await openai.chat.completions.create(limits)).choices[0].message.content)
  return text
})
await check('openai responses', async () => {
  const answer = await openai.responses.create({ model, input: 'hello', max_output_tokens: 6, temperature: 0 })
  assert.ok(answer.output_text)
  return answer.output_text
})
await check('openai unknown model is a not-found error', async () => {
  await assert.rejects(openai.chat.completions.create({ ...limits, model: 'no-such-model' }), OpenAI.NotFoundError)
  return 'rejected'
})
await check('anthropic messages', async () => {
  const answer = await anthropic.messages.create(limits)
  assert.ok(answer.content[0].text)
  return answer.content[0].text
})
await check('anthropic messages streamed', async () => {
  const stream = anthropic.messages.stream(limits)
  const text = await stream.finalText()
  assert.ok(text)
  return text
})
await check('vercel ai generateText', async () => {
  const { text } = await generateText(prompt)
  assert.ok(text)
  return text
})
await check('vercel ai streamText says the same', async () => {
  const text = await collect(streamText(prompt).textStream, (part) => part)
  assert.equal(text, (await generateText(prompt)).text)
  return text
})

console.log(`${failed} failed`)
process.exit(failed === 0 ? 0 : 1)
