// Drives a server with one of the official TypeScript clients and prints what it saw as JSON.
// Usage: node session.mjs (sdk|client) COMMAND ARGS...
const [which, command, ...args] = process.argv.slice(2);
const { Client } = await import(which === "sdk" ? "@modelcontextprotocol/sdk/client/index.js" : "@modelcontextprotocol/client");
const { StdioClientTransport } = await import(which === "sdk" ? "@modelcontextprotocol/sdk/client/stdio.js" : "@modelcontextprotocol/client/stdio");

const client = new Client({ name: "interop", version: "1" }, { capabilities: {} });
await client.connect(new StdioClientTransport({ command, args, env: process.env, stderr: "ignore" }));
const call = (name, parameters = {}) => client.callTool({ name, arguments: parameters });
const { tools } = await client.listTools(); // the client validates structured results against what it lists
const added = await call("reminder_add", { message: "from TypeScript", inHours: 1 });
const due = await call("reminder_add", { message: "due at once", inSeconds: 0, url: "https://example.org/" });
await new Promise((resolve) => setTimeout(resolve, 20));
const polled = JSON.parse((await call("get_proactive_events")).content[0].text);
const acked = await call("acknowledge_events", { event_ids: polled.map((e) => e.event_id) });
const seen = {
  server: client.getServerVersion().name,
  instructions: (client.getInstructions() ?? "").length > 0,
  tools: tools.map((t) => t.name),
  added: added.structuredContent.message,
  due: due.structuredContent.id,
  polled: polled.map((e) => e.kind),
  acked: acked.structuredContent.acked,
  status: (await call("heartbeat_status")).content[0].text,
  configured: (await call("heartbeat_configure", { intervalHours: 2 })).structuredContent.intervalSeconds,
  refused: (await call("reminder_cancel", { id: "rem_none" })).isError,
  list: (await call("reminder_list")).structuredContent.count,
  history: (await call("wake_history")).structuredContent.count,
  context: (await call("get_context")).structuredContent.reminders,
  feeds: (await call("poll_feeds")).content[0].text,
  triggered: (await call("heartbeat_trigger")).structuredContent.toBePolled,
  cancelled: (await call("reminder_cancel", { id: added.structuredContent.id })).structuredContent.cancelled,
  resources: (await client.listResources()).resources.map((r) => r.uri),
  config: JSON.parse((await client.readResource({ uri: "heartbeat://config" })).contents[0].text).intervalSeconds,
};
await client.close();
console.log(JSON.stringify(seen));
