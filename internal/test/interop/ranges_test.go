package interop

import (
	"fmt"
	"testing"
)

// The other engines read tables with filters of ranges as if they had none, and write on.
func TestTheOthersPassFiltersOfRangesOver(t *testing.T) {
	forEachOther(t, func(t *testing.T, other Engine, reuse bool) {
		s := newSession(t, SieveDB{}, with(tiny(reuse), func(o *Options) { o.RangeFilters = true }))
		for i := range 2000 {
			s.put(fmt.Sprintf("key%05d", i*7%2000), string(s.bytes(60)))
		}
		s.verify()
		s.close()
		s.exchange(SieveDB{}, other)
	})
}
