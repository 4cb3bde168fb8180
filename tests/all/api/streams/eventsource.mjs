// Watches a run as a browser does: names what comes, and asks again by itself.
// Arguments: the package's module, the stream's URL, and the types of events, with commas between them.
const [module, url, types] = process.argv.slice(2);
const { EventSource } = await import(module);

const source = new EventSource(url);
for (const type of types.split(",")) {
  source.addEventListener(type, (event) => {
    console.log(`${event.lastEventId} ${type} ${JSON.parse(event.data).seq}`);
  });
}
source.addEventListener("end", (event) => {
  console.log(`end ${JSON.parse(event.data).status}`);
});
source.addEventListener("error", () => {
  // It tries again after any error but an answer that says not to.
  if (source.readyState === EventSource.CLOSED) {
    console.log("closed");
  }
});
