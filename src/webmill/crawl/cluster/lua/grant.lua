-- Pages for shards, so that the sum of all that is promised stays within the limit. ARGV: prefix, node, limit, number of shards,
-- shard, pages, shard, pages, … What each is promised now, in all; 0: no more.
local prefix, node, limit, shards = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local left = limit
local promised = redis.call('HVALS', prefix .. 'promised')
for _, pages in ipairs(promised) do left = left - tonumber(pages) end
local granted = {}
for at = 5, #ARGV, 2 do
  local pages = math.min(left, tonumber(ARGV[at + 1]))
  -- A shard that has not told yet how many pages it has may have any number.
  if #promised == shards and pages > 0 and redis.call('HGET', prefix .. 'owners', ARGV[at]) == node then
    left = left - pages
    table.insert(granted, redis.call('HINCRBY', prefix .. 'promised', ARGV[at], pages))
  else
    table.insert(granted, 0)
  end
end
return granted
