-- A node that is told to stop gives all back. ARGV: prefix, node.
local prefix, node = ARGV[1], ARGV[2]
local owners = redis.call('HGETALL', prefix .. 'owners')
for at = 1, #owners, 2 do
  if owners[at + 1] == node then redis.call('HDEL', prefix .. 'owners', owners[at]) end
end
for _, key in ipairs({'beats', 'nodes', 'places'}) do redis.call('HDEL', prefix .. key, node) end
return 1
