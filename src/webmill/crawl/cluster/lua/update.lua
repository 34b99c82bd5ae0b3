-- Record when reserved keys are free. ARGV: prefix, the caller's time, JSON: [[key, reserved, free], ...]. What somebody else
-- has reserved meanwhile is never made shorter.
local prefix = ARGV[1]
local now = crawl_time(prefix, ARGV[2])
for _, update in ipairs(cjson.decode(ARGV[3])) do
  local key, free = prefix .. 'gate:' .. update[1], update[3]
  local found = redis.call('GET', key)
  local taken = found and tonumber(string.match(found, '%S+')) or 0
  -- What two have reserved is a time that neither has named, or the next update of one would take it for its own.
  local expected = free
  if found and taken ~= update[2] then
    expected = math.max(free, taken)
    free = expected + 0.000001
  end
  if free > now then
    redis.call('SET', key, string.format('%.17g %.17g', free, expected), 'PX', math.ceil((free - now + 10) * 1000))
  elseif found then
    redis.call('DEL', key)
  end
end
return string.format('%.6f', now)
