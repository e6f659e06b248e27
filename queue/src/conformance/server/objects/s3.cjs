// An S3 server that checks signatures: PORT BUCKET SECRET; its files lie below the current folder.
const root = process.env.SKILLOPT_OBJECT_SERVERS + "/node_modules/s3rver";
const [port, bucket, secret] = process.argv.slice(2);
const Server = require(root);
const Account = require(root + "/lib/models/account");
new Account(1, "tests").createKeyPair("tests", secret);
const server = new Server({
  port: Number(port),
  address: "127.0.0.1",
  silent: true,
  directory: process.cwd() + "/kept",
  configureBuckets: [{ name: bucket, configs: [] }],
});
server.run().then(() => console.log("ready"));
