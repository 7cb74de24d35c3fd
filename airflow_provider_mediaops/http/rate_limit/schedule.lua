-- The operations of operations.py on a key's schedule, in one step inside Redis and by its clock.
-- Words and constants are explained in schedule.py; one table of tests runs on both.
--
-- Before this text stand the constants and the function clock(), which returns the time in seconds (redis_store.py).
-- KEYS[1]: the schedule. ARGV: the name of the operation, the cooldown before a schedule that begins, and the
-- operation's figures; an unknown one is empty. Returns nothing or the name of an answer and its figures. Two names are
-- no operations: "read" returns the schedule as it is, and "forget" removes it.

-- A schedule that nobody has used for a day is forgotten; the next one begins as carefully as the first.
local KEPT_SECONDS = 86400
local FIGURES = {
    'epoch', 'seen', 'shift', 'paused_until', 'next_free', 'rate_factor', 'recovered_at', 'blocked_until'
}
local LISTS = {vacant = MOST_VACANT, sent = MOST_SENT}
-- Only these are read, because another program may have put any number of fields there.
local FIELDS = {'server', 'vacant', 'sent', unpack(FIGURES)}
-- The digits of the longest number and a blank.
local NUMBER_LENGTH = 25

-- Seventeen digits restore a double exactly; Redis itself writes fourteen.
local function exact(number)
    return string.format('%.17g', number)
end

local function finite(text)
    local number = text and tonumber(text)
    return number and number == number and math.abs(number) < math.huge and number or nil
end

-- The length is checked first, because a long text would hold up the whole server.
local function numbers_of(text, most)
    local numbers = {}
    if #text > most * NUMBER_LENGTH then
        return nil
    end
    for part in string.gmatch(text, '%S+') do
        local number = finite(part)
        if not number then
            return nil
        end
        table.insert(numbers, number)
    end
    table.sort(numbers)
    return #numbers <= most and numbers or nil
end

local function is_plausible(schedule, now)
    local ahead = math.max(now, schedule.seen) + FURTHEST_SECONDS
    local latest = math.max(
        schedule.epoch, schedule.paused_until, schedule.next_free + schedule.shift, schedule.recovered_at,
        schedule.blocked_until, schedule.sent[#schedule.sent] or schedule.epoch
    )
    return schedule.rate_factor >= LEAST_FACTOR and schedule.rate_factor <= 1
        and schedule.shift >= 0 and schedule.shift <= MOST_SHIFT_SECONDS and latest <= ahead
        and (schedule.vacant[#schedule.vacant] or schedule.next_free) <= schedule.next_free
end

local function texts_of(schedule)
    local texts = {server = schedule.server}
    for _, name in ipairs(FIGURES) do
        texts[name] = exact(schedule[name])
    end
    for name in pairs(LISTS) do
        local parts = {}
        for i, number in ipairs(schedule[name]) do
            parts[i] = exact(number)
        end
        texts[name] = table.concat(parts, ' ')
    end
    return texts
end

-- Returns nothing if the schedule does not exist or is not one of ours.
local function load(now)
    local reply, texts = redis.call('HMGET', KEYS[1], unpack(FIELDS)), {}
    for i, name in ipairs(FIELDS) do
        texts[name] = reply[i] or nil
    end
    local schedule = {server = texts.server}
    for _, name in ipairs(FIGURES) do
        schedule[name] = finite(texts[name])
        if not schedule[name] then
            return nil, {}
        end
    end
    for name, most in pairs(LISTS) do
        schedule[name] = numbers_of(texts[name] or '', most)
        if not schedule[name] then
            return nil, {}
        end
    end
    if not is_plausible(schedule, now) then
        return nil, {}
    end
    return schedule, texts
end

local function save(schedule, before, now)
    local changed = {}
    for name, text in pairs(texts_of(schedule)) do
        if text ~= before[name] then
            table.insert(changed, name)
            table.insert(changed, text)
        end
    end
    if #changed > 0 then
        redis.call('HSET', KEYS[1], unpack(changed))
        local last = math.max(
            now, schedule.paused_until, schedule.next_free + schedule.shift, schedule.blocked_until
        )
        redis.call('EXPIRE', KEYS[1], math.ceil(last - now) + KEPT_SECONDS)
    end
end

local function begin(now, cooldown)
    return {
        epoch = now, seen = now, shift = 0, paused_until = now + cooldown, next_free = now, rate_factor = 1,
        recovered_at = now, blocked_until = 0, vacant = {}, sent = {}
    }
end

local function restarted(schedule, now, cooldown, ahead)
    local anew = begin(now, cooldown)
    anew.rate_factor = schedule.rate_factor
    anew.blocked_until = schedule.blocked_until - ahead
    return anew
end

local function position_at(schedule, now)
    return math.max(now, schedule.paused_until) - schedule.shift
end

local function put_off(schedule, now, until_)
    local by = until_ - math.max(now, schedule.paused_until)
    if by > 0 then
        schedule.shift = schedule.shift + by
        schedule.paused_until = until_
    end
end

local function index_of(numbers, number)
    for i, each in ipairs(numbers) do
        if each == number then
            return i
        end
    end
end

local function remove(numbers, number)
    local index = index_of(numbers, number)
    if index then
        table.remove(numbers, index)
    end
end

local function earliest_after(sent, moment, limit, window)
    while true do
        local before = 0
        for _, each in ipairs(sent) do
            before = each <= moment and before + 1 or before
        end
        if before < limit or sent[before + 1 - limit] + window <= moment then
            return moment
        end
        moment = sent[before + 1 - limit] + window
    end
end

local function slot_answer(epoch, position, due, wait, entry)
    return {'slot', exact(epoch), exact(position), exact(due), exact(wait), entry and exact(entry) or ''}
end

local function confirm(schedule, now, slept, limit, window, position, due, entry)
    local sent = schedule.sent
    remove(sent, entry)
    local planned = slept - due <= PUNCTUAL_SECONDS and due or slept
    if not entry and #sent >= limit then
        planned = math.max(planned, sent[#sent + 1 - limit] + window)
    end
    local earliest = earliest_after(sent, planned, limit, window)
    local recent = 0
    for _, moment in ipairs(sent) do
        recent = moment > slept - window and recent + 1 or recent
    end
    table.insert(sent, earliest)
    table.sort(sent)
    local log, kept = {}, math.min(math.max(limit, recent + 1), MOST_SENT)
    for i = math.max(1, #sent + 1 - kept), #sent do
        table.insert(log, sent[i])
    end
    schedule.sent = log
    schedule.seen = now
    if earliest - slept <= NEGLIGIBLE_SECONDS then
        return {'granted', exact(schedule.epoch), exact(earliest)}
    end
    if recent <= limit then
        schedule.shift = schedule.shift + math.max(0, earliest - slept - BEHIND_SECONDS)
    end
    return slot_answer(schedule.epoch, position, earliest, earliest - now, earliest)
end

local function reserve_next(schedule, now, gap, limit, window, horizon)
    local factor, recovered_at = schedule.rate_factor, schedule.recovered_at
    if factor < 1 and now - recovered_at >= RECOVERY_SECONDS then
        factor, recovered_at = math.min(1, factor + RECOVERY), now
    end
    gap = gap / factor
    local missed = now >= schedule.paused_until and math.max(0, CATCH_UP_SECONDS - gap) or 0
    local first, vacant = position_at(schedule, now) - missed, {}
    for _, position in ipairs(schedule.vacant) do
        if position >= first then
            table.insert(vacant, position)
        end
    end
    local position = vacant[1] or math.max(schedule.next_free, first)
    local due = position + schedule.shift
    if due - math.max(now, schedule.paused_until) > horizon then
        return {'overbooked', exact(due - now)}
    end
    if #vacant == 0 then
        schedule.next_free = position + gap
    else
        table.remove(vacant, 1)
    end
    schedule.seen, schedule.vacant = now, vacant
    schedule.rate_factor, schedule.recovered_at = factor, recovered_at
    if due - now > NEGLIGIBLE_SECONDS then
        return slot_answer(schedule.epoch, position, due, due - now, nil)
    end
    return confirm(schedule, now, now, limit, window, position, due, nil)
end

local operations = {}

function operations.reserve(schedule, now, gap, limit, window, horizon, epoch, position, held_due, entry)
    if schedule.blocked_until > now then
        return {'exhausted', exact(schedule.blocked_until - now)}
    end
    if not epoch or epoch ~= schedule.epoch or position >= schedule.next_free then
        return reserve_next(schedule, now, gap, limit, window, horizon)
    end
    local slept = math.max(now, held_due)
    local due = math.max(position + schedule.shift, schedule.paused_until, entry or 0)
    if slept - due > SLOT_LOST_SECONDS then
        return reserve_next(schedule, now, gap, limit, window, horizon)
    end
    if due - slept > NEGLIGIBLE_SECONDS then
        return slot_answer(epoch, position, due, due - now, entry)
    end
    return confirm(schedule, now, slept, limit, window, position, held_due, entry)
end

function operations.release(schedule, now, gap, epoch, position, entry)
    if epoch ~= schedule.epoch or position >= schedule.next_free or index_of(schedule.vacant, position) then
        return
    end
    local vacant = schedule.vacant
    table.insert(vacant, position)
    table.sort(vacant)
    gap = gap / schedule.rate_factor + TICK_SECONDS
    while #vacant > 0 and schedule.next_free - vacant[#vacant] <= gap do
        schedule.next_free = table.remove(vacant)
    end
    while #vacant > MOST_VACANT do
        table.remove(vacant)
    end
    remove(schedule.sent, entry)
    schedule.seen = now
end

function operations.delayed(schedule, now, at, by)
    local index = index_of(schedule.sent, at)
    if index then
        schedule.sent[index] = at + math.min(by, SLOT_LOST_SECONDS)
        table.sort(schedule.sent)
    end
end

function operations.slow_down(schedule, now, gap, pause, epoch)
    put_off(schedule, now, now + pause)
    schedule.seen = now
    local is_news
    if epoch then
        is_news = epoch == schedule.epoch
    else
        is_news = math.abs(now - schedule.epoch) >= SAME_BURST_SECONDS
    end
    if is_news and schedule.rate_factor > LEAST_FACTOR then
        schedule.rate_factor = math.max(LEAST_FACTOR, schedule.rate_factor * DECREASE)
        schedule.epoch = math.max(now, schedule.epoch + TICK_SECONDS)
        schedule.next_free = position_at(schedule, now) + gap / schedule.rate_factor
        schedule.vacant = {}
        schedule.recovered_at = math.max(now, schedule.paused_until)
    end
end

function operations.exhaust_quota(schedule, now, seconds)
    schedule.blocked_until = math.max(schedule.blocked_until, now + seconds + QUOTA_GRACE_SECONDS)
    schedule.seen = now
end

function operations.restore_quota(schedule, now)
    schedule.blocked_until = math.min(schedule.blocked_until, now)
end

local figures = {}
for i = 3, #ARGV do
    -- An empty text is no number, hence nil.
    figures[i - 2] = tonumber(ARGV[i])
end
if ARGV[1] == 'forget' then
    -- Removes it, and needs no permission that the operations do not need.
    return redis.call('EXPIRE', KEYS[1], 0)
end
local now, cooldown = clock(), tonumber(ARGV[2])
local server = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
local schedule, before = load(now)
if not schedule and ARGV[1] == 'read' then
    return nil
elseif not schedule then
    schedule = begin(now, cooldown)
elseif now < schedule.seen - CLOCK_STEP_SECONDS then
    schedule = restarted(schedule, now, cooldown, schedule.seen - now)
end
now = math.max(now, schedule.seen)
if ARGV[1] == 'read' then
    local shown = texts_of(schedule)
    local reply = {'schedule', exact(now), shown.vacant, shown.sent}
    for _, name in ipairs(FIGURES) do
        table.insert(reply, shown[name])
    end
    return reply
end
-- A server that was restarted, or a replica that took over, may lack the latest requests: they are waited out.
if schedule.server and schedule.server ~= server then
    put_off(schedule, now, now + cooldown)
end
schedule.server = server
local answer = operations[ARGV[1]](schedule, now, unpack(figures, 1, #ARGV - 2))
save(schedule, before, now)
return answer
