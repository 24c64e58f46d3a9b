package cluster

import "github.com/sievedb/sievedb/db"

// The memory of all clients together is by default a quarter of what the process may use.
const (
	clientShare    = 4
	minClientBytes = 64 << 20
)

// clientBytes returns the bound of the memory of clients.
func (o *Options) clientBytes() int64 {
	if o.Limits.ClientBytes > 0 {
		return o.Limits.ClientBytes
	}
	return max(minClientBytes, db.ProcessMemory()/clientShare)
}
