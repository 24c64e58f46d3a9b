package opt

import "github.com/syndtr/goleveldb/leveldb/cache"

// Cacher makes the algorithm of a cache.
type Cacher interface {
	New(capacity int) cache.Cacher
}

// LRUCacher evicts what was not used for the longest time. NoCacher means no cache.
var (
	LRUCacher = CacherFunc(cache.NewLRU)
	NoCacher  = CacherFunc(nil)
)

type cacherFunc struct {
	make func(capacity int) cache.Cacher
}

func (c *cacherFunc) New(capacity int) cache.Cacher {
	if c == nil || c.make == nil {
		return nil
	}
	return c.make(capacity)
}

// CacherFunc returns the Cacher that calls f; nil: no cache.
func CacherFunc(f func(capacity int) cache.Cacher) Cacher { return &cacherFunc{f} }

type passthrough struct{ cacher cache.Cacher }

func (p *passthrough) New(int) cache.Cacher { return p.cacher }

// PassthroughCacher returns the Cacher that always returns x. Databases cannot share a cache this way:
// each has one of x's capacity.
func PassthroughCacher(x cache.Cacher) Cacher { return &passthrough{x} }

// NewLRU returns PassthroughCacher of an LRU cache.
func NewLRU(capacity int) Cacher { return PassthroughCacher(cache.NewLRU(capacity)) }
