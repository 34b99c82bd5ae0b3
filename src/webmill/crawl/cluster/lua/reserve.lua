-- Reserve the keys of each request, or none of them. ARGV: prefix, the caller's time, the longest reservation there is, and
-- requests as JSON: [[number, [[key, until, expected], ...]], ...]. Returns the time, and number, key, expected of the refused.
local prefix, longest = ARGV[1], tonumber(ARGV[3])
local now = crawl_time(prefix, ARGV[2])
local refused = {}
for _, request in ipairs(cjson.decode(ARGV[4])) do
  local is_free = true
  for _, wanted in ipairs(request[2]) do
    local found = redis.call('GET', prefix .. 'gate:' .. wanted[1])
    if found then
      local taken, expected = string.match(found, '(%S+) (%S+)')
      taken = tonumber(taken)
      if now < taken and taken <= now + longest then
        is_free = false
        table.insert(refused, {request[1], wanted[1], expected})
      end
    end
  end
  if is_free then
    for _, wanted in ipairs(request[2]) do
      local value = string.format('%.17g %.17g', wanted[2], wanted[3])
      redis.call('SET', prefix .. 'gate:' .. wanted[1], value, 'PX', math.max(1, math.ceil((wanted[2] - now + 10) * 1000)))
    end
  end
end
return {string.format('%.6f', now), refused}
