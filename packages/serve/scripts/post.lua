-- For wrk: the file of the first argument as the body of every request, with the length of its JSON as the second.
local path, length
function init(args)
  path, length = args[1], args[2]
  local file = assert(io.open(path, "rb"))
  wrk.body = file:read("*a")
  file:close()
  wrk.method = "POST"
  wrk.headers["Content-Type"] = "application/octet-stream"
  wrk.headers["Inference-Header-Content-Length"] = length
end

function done(summary, latency)
  io.write(string.format("\nRESULT {\"requests\":%d,\"microseconds\":%d,\"errors\":%d,\"p50\":%f,\"p99\":%f,\"max\":%f}\n",
    summary.requests, summary.duration,
    summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.status + summary.errors.timeout,
    latency:percentile(50) / 1000, latency:percentile(99) / 1000, latency.max / 1000))
end
