package server

import "sync/atomic"

// budget bounds the memory of requests that clients have sent in part, or have queued, all clients together. What
// else they use may be charged to it as well.
type budget struct {
	limit int64
	used  atomic.Int64
}

// charge is what one user of a budget has taken. It is used by one goroutine.
type charge struct {
	budget *budget
	held   int64
}

// set makes the charge n bytes, and returns false without a change if the budget has too little left.
func (c *charge) set(n int64) bool {
	more := n - c.held
	if more == 0 {
		return true
	}
	if used := c.budget.used.Add(more); more > 0 && used > c.budget.limit {
		c.budget.used.Add(-more)
		return false
	}
	c.held = n
	return true
}
