-- One clock for all nodes: Redis's own, and how far the crawl's is from it. Whoever asks says what he has (`mine`, 0 when
-- he joins). The clock of a node does not jump, Redis's may be set: where they differ by more than a second, his counts.
local function crawl_time(prefix, mine)
  local t = redis.call('TIME')
  local server = tonumber(t[1]) + tonumber(t[2]) / 1000000
  local now = server + tonumber(redis.call('GET', prefix .. 'clock') or '0')
  mine = tonumber(mine)
  if mine > now + 0.001 or (mine > 0 and mine < now - 1) then
    redis.call('SET', prefix .. 'clock', string.format('%.6f', mine - server))
    return mine
  end
  return now
end
