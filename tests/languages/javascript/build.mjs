// node build.mjs WIT-FOLDER OUTPUT [default-features]: without the last word the component imports no WASI.

import { writeFile } from 'node:fs/promises';
import { componentize } from '@bytecodealliance/componentize-js';

const [witPath, output, features] = process.argv.slice(2);
const disableFeatures = features ? [] : ['stdio', 'random', 'clocks', 'http', 'fetch-event'];
const sourcePath = new URL('least-requests.js', import.meta.url).pathname;
const { component } = await componentize({ sourcePath, witPath, worldName: 'scorer', disableFeatures });
await writeFile(output, component);
