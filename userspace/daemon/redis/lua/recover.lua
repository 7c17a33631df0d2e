-- SPDX-License-Identifier: GPL-2.0
--
-- recover: return the tasks whose lease has ended.
--
-- ARGV: limit, max-lost
--
-- Answer: time, then
--   returned	tasks that are scheduled again, with the same due time
--   dead	tasks that were buried, with the note "lost", after max-lost leases
--   orphans	ids that were removed because they had no header
--   lease_end	earliest end of a lease, or -1
--   next	due time of the head, or -1
--   canceled	tasks that were removed because they had been canceled
--   newer	tasks of a newer version, which were left alone
--
-- At most limit, and at most 128, of all these.

local limit, max_lost = math.min(tonumber(ARGV[1]), BATCH), tonumber(ARGV[2])
local returned, dead, orphans, canceled, newer, skipped = 0, 0, 0, 0, 0, 0

local function recover(id, h)
	h.lost = math.min(h.lost + 1, 65535)
	if is_last(h) then
		remove(id, h)
		canceled = canceled + 1
	elseif h.lost >= max_lost then
		bury(id, h, 'lost')
		dead = dead + 1
	else
		schedule(id, h, h.due)
		returned = returned + 1
	end
end

for _, id in ipairs(redis.call('ZRANGEBYSCORE', RUN, '-inf', now, 'LIMIT', 0, limit)) do
	local h = get(id)
	if h == NEWER then
		newer = newer + 1
		skipped = skipped + park(RUN, id, skipped, NEWER_WAIT)
	elseif h and h.state == LEASED then
		recover(id, h)
	else
		misfit(id, h, RUN)
		orphans = orphans + 1
	end
end
count('lost', returned + dead + canceled)
count('orphan', orphans)
return { us, returned, dead, orphans, score_at(RUN, skipped), first_score(DUE), canceled, newer }
