package batch

import (
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/expiry"
)

// MarkSealed says that the values have their envelopes, or need none.
func (b *Batch) MarkSealed() { b.sealed = true }

// NeedsSeal reports whether the batch must be sealed, by the policy of a store, before it is applied.
func (b *Batch) NeedsSeal(p *expiry.Policy) bool { return (p != nil || b.ttls != nil) && !b.sealed }

// Seal adds the writes of from to b, which is empty, with envelopes around the values. It returns
// why that is not possible.
func (b *Batch) Seal(p *expiry.Policy, from *Batch) error {
	var scratch, value []byte
	var err error
	for _, e := range from.All() {
		switch e.Kind {
		case EntryDelete:
			b.Add(base.KindDelete, e.Key, nil)
		case EntryDeleteRange:
			b.DeleteRange(e.Key, e.Value)
		default:
			if e.Until != expiry.Never {
				value = p.SealUntil(scratch, e.Key, e.Value, e.Until)
				b.Add(base.KindSet, e.Key, value)
				continue
			}
			if value, err = p.Seal(scratch, e.Key, e.Value, e.TTL); err != nil {
				b.Refuse(err)
			} else if b.Add(base.KindSet, e.Key, value); p.Under(e.Key) {
				scratch = value
			}
		}
	}
	b.sealed = true
	return b.refused
}
