package engine

import "container/heap"

// dueQueue holds when each wake is to be offered next, soonest first: O(log n) to add and to remove, with one entry
// a wake, however often it moves.
type dueQueue struct {
	entries []dueEntry
	at      map[string]int // key: place in entries
}

type dueEntry struct {
	key string
	due int64 // Unix milliseconds
}

// newDueQueue is an empty queue with room for so many entries.
func newDueQueue(room int) *dueQueue {
	return &dueQueue{entries: make([]dueEntry, 0, room), at: make(map[string]int, room)}
}

// add puts a key that is not in the queue at due.
func (q *dueQueue) add(key string, due int64) {
	q.Push(dueEntry{key, due})
	heap.Fix(q, len(q.entries)-1)
}

func (q *dueQueue) remove(key string) {
	if i, ok := q.at[key]; ok {
		heap.Remove(q, i)
	}
}

// first is the soonest entry.
func (q *dueQueue) first() (dueEntry, bool) {
	if len(q.entries) == 0 {
		return dueEntry{}, false
	}
	return q.entries[0], true
}

// countDue is how many entries are due at now; it looks at those alone.
func (q *dueQueue) countDue(now int64) int { return q.countFrom(0, now) }

func (q *dueQueue) countFrom(i int, now int64) int {
	if i >= len(q.entries) || q.entries[i].due > now {
		return 0
	}
	return 1 + q.countFrom(2*i+1, now) + q.countFrom(2*i+2, now)
}

// Len, Less, Swap, Push and Pop are heap.Interface; nothing else calls them.
func (q *dueQueue) Len() int           { return len(q.entries) }
func (q *dueQueue) Less(i, j int) bool { return q.entries[i].due < q.entries[j].due }
func (q *dueQueue) Swap(i, j int) {
	q.entries[i], q.entries[j] = q.entries[j], q.entries[i]
	q.at[q.entries[i].key], q.at[q.entries[j].key] = i, j
}
func (q *dueQueue) Push(e any) {
	entry := e.(dueEntry)
	q.at[entry.key] = len(q.entries)
	q.entries = append(q.entries, entry)
}
func (q *dueQueue) Pop() any {
	last := q.entries[len(q.entries)-1]
	q.entries = q.entries[:len(q.entries)-1]
	delete(q.at, last.key)
	return last
}
