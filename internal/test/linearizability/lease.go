package linearizability

import (
	"time"
)

// lease marks the number of a value that expires with the next tick.
const lease = 1 << 40

// epoch is how far a tick moves the clock. A lease lives for half of it.
const epoch = time.Second

// now is the clock of the database.
func (r *run) now() time.Time {
	return time.Unix(1_700_000_000, 0).Add(time.Duration(r.epochs.Load()) * epoch)
}

// tick moves the clock, which ends all leases. The history has an operation for each group. No lease is written
// meanwhile, so that each one ends with the tick after it; everything else goes on. There are no plain reads: one after
// a tick may miss the writes of a transaction that passed its check before.
func (c *client) tick() bool {
	var all []input
	for group := range c.Count {
		all = append(all, input{group: group, mask: 1<<c.Width - 1, write: true, tick: true, how: "tick"})
	}
	return c.do(func() (values, error) {
		c.ticks.Lock()
		defer c.ticks.Unlock()
		c.epochs.Add(1)
		_, err := c.d.Has(keyOf(0, 0)) // a database whose clock nobody reads is in the time before
		return values{}, err
	}, all...)
}

// granting returns act, which writes leases, without a tick meanwhile.
func (c *client) granting(act func() (values, error)) func() (values, error) {
	return func() (values, error) {
		c.ticks.RLock()
		defer c.ticks.RUnlock()
		return act()
	}
}
