// Google's storage as its XML interface speaks, as far as values are put, read and looked for: PORT
// BUCKET TOKEN; its files lie below the current folder. The emulators that can be installed have
// no uploads over that interface.
const crypto = require("node:crypto");
const fs = require("node:fs");
const http = require("node:http");
const [port, bucket, token] = process.argv.slice(2);
fs.mkdirSync("kept", { recursive: true });

function answer(response, status, headers, body) {
  response.writeHead(status, { "content-length": body.length, ...headers });
  response.end(body);
}

function refuse(response, status, code) {
  const page = `<?xml version='1.0'?><Error><Code>${code}</Code><Message>${code}</Message></Error>`;
  answer(response, status, { "content-type": "application/xml" }, Buffer.from(page));
}

function serve(request, response, body) {
  const [named, ...rest] = request.url.slice(1).split("/");
  const file = "kept/" + encodeURIComponent(decodeURIComponent(rest.join("/")));
  if (request.headers.authorization !== "Bearer " + token) {
    return refuse(response, 401, "AuthenticationRequired");
  }
  if (decodeURIComponent(named) !== bucket) {
    return refuse(response, 404, "NoSuchBucket");
  }
  if (request.method === "PUT") {
    // Aside first: a killed server leaves nothing half written.
    fs.writeFileSync("aside", body);
    fs.renameSync("aside", file);
  } else if (!fs.existsSync(file)) {
    return refuse(response, 404, "NoSuchKey");
  }
  const found = fs.readFileSync(file);
  const headers = {
    etag: '"' + crypto.createHash("md5").update(found).digest("hex") + '"',
    "last-modified": fs.statSync(file).mtime.toUTCString(),
    "x-goog-generation": "1",
  };
  const is_read = request.method === "GET";
  if (request.method === "HEAD") {
    headers["content-length"] = found.length;
    response.writeHead(200, headers);
    return response.end();
  }
  answer(response, 200, headers, is_read ? found : Buffer.alloc(0));
}

const server = http.createServer((request, response) => {
  const parts = [];
  request.on("data", (part) => parts.push(part));
  request.on("end", () => serve(request, response, Buffer.concat(parts)));
});
server.listen(Number(port), "127.0.0.1", () => console.log("ready"));
