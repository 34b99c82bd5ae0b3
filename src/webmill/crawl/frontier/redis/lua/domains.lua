-- The rows of these domains as JSON: false for one that does not exist. ARGV: prefix, names (JSON).
-- A row: the fields below, then when its lease ends, when its first retry, its first revisit and the first retry of a
-- requisite are due.
local prefix = ARGV[1]
local rows = {}
local function first(key)
  return tonumber(redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2])
end
local function first_revisit(name)
  local found = false
  for priority = -1, 9 do
    local time = first(prefix .. 'revisits:' .. priority .. ':' .. name)
    if time and (not found or time < found) then found = time end
  end
  return found
end
for at, name in ipairs(cjson.decode(ARGV[2])) do
  local row = redis.call('HMGET', prefix .. 'domain:' .. name, 'id', 'is_excluded', 'token', 'next_fetch_time', 'due',
    'again', 'retries', 'revisits', 'lanes', 'errand', 'rank')
  if not row[1] then
    rows[at] = false
  else
    local token, retries, revisits = row[3] or '0', row[7] or '0', row[8] or '0'
    row[12] = token ~= '0' and redis.call('ZSCORE', prefix .. 'leases', token)
    row[13] = retries ~= '0' and redis.call('ZRANGE', prefix .. 'retries:' .. name, 0, 0, 'WITHSCORES')[2] or false
    local again = revisits ~= '0' and first_revisit(name)
    row[14] = again and string.format('%.17g', again)
    row[15] = retries ~= '0' and redis.call('ZRANGE', prefix .. 'errands:' .. name, 0, 0, 'WITHSCORES')[2] or false
    rows[at] = row
  end
end
return cjson.encode(rows)
