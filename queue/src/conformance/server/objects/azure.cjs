// An Azure blob server: PORT CONTAINER SECRET; its files lie below the current folder.
const crypto = require("node:crypto");
const http = require("node:http");
const [port, container, secret] = process.argv.slice(2);
const path = "/tests/" + container;

// Makes the container, as soon as the server listens.
function make() {
  const date = new Date().toUTCString();
  const version = "2021-10-04";
  const canonical = `x-ms-date:${date}\nx-ms-version:${version}\n/tests${path}\nrestype:container`;
  const text = "PUT" + "\n".repeat(12) + canonical;
  const key = Buffer.from(secret, "base64");
  const signature = crypto.createHmac("sha256", key).update(text).digest("base64");
  const headers = {
    "x-ms-date": date,
    "x-ms-version": version,
    "content-length": 0,
    authorization: "SharedKey tests:" + signature,
  };
  const options = { host: "127.0.0.1", port, path: path + "?restype=container", method: "PUT", headers };
  const request = http.request(options, (response) => {
    response.resume();
    // It is there since the last start.
    const done = [201, 409].includes(response.statusCode);
    console.log(done ? "ready" : "Error: the container is refused: " + response.statusCode);
  });
  request.on("error", () => setTimeout(make, 20));
  request.end();
}

// When all is written down.
process.on("exit", () => console.log("over"));
process.env.AZURITE_ACCOUNTS = "tests:" + secret;
const own = ["--blobHost", "127.0.0.1", "--blobPort", port, "--location", process.cwd() + "/kept"];
process.argv = [...process.argv.slice(0, 2), ...own, "--silent", "--skipApiVersionCheck"];
require(process.env.SKILLOPT_OBJECT_SERVERS + "/node_modules/azurite/dist/src/blob/main");
make();
