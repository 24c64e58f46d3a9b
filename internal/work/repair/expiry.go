package repair

import (
	"math"
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/expiry"
	"github.com/sievedb/sievedb/internal/disk/manifest"
)

// keptRecord returns what the new MANIFEST records about the database: what the old ones did, except for
// a time that is far ahead of the clock, which would hide values for too long. That values expire must not
// be forgotten: if only the tables show it, the new MANIFEST says that the prefixes are unknown.
func (r *Repairer) keptRecord(p *plan) manifest.Recorded {
	recorded := r.manifest.recorded
	unknown := r.hasOtherPrefixes(p)
	if unknown {
		recorded.Prefixes = nil
		recorded.Time = max(recorded.Time, 1)
	}
	if r.timeAhead(recorded) > aheadOfClock {
		recorded.Time = 1
	}
	return recorded
}

// hasOtherPrefixes reports whether the result has tables whose values expire under prefixes that the record lacks,
// because the MANIFEST that recorded them is missing. Prefixes are only added, so a table that the MANIFEST
// in use names has recorded ones, perhaps fewer, and so has one that it had replaced.
func (r *Repairer) hasOtherPrefixes(p *plan) bool {
	known := expiry.New(r.manifest.recorded.Prefixes, nil)
	for _, t := range r.tables {
		switch {
		case t.expiryKeys == 0 || t.dead && !t.fill || t.line.Fate == unused:
		case known == nil:
			return true
		case !t.fill && !p.named[t.Num] && t.expiryKeys != known.Sum():
			return true
		}
	}
	return false
}

// sealer gives values envelopes that do not expire, if their key is under a prefix and they have none. A value of a
// filler may have been deleted before the prefix was added, when values were not written with envelopes.
type sealer struct{ *expiry.Policy }

func (s sealer) seal(ikey, value []byte) []byte {
	user := base.UserKey(ikey)
	if _, kind := base.SplitTrailer(base.Trailer(ikey)); kind != base.KindSet || !s.Under(user) {
		return value
	}
	if _, ok := expiry.Decode(value); ok {
		return value
	}
	return s.SealUntil(nil, user, value, expiry.Never)
}

// timeAhead returns how much the recorded time is ahead of the clock.
func (r *Repairer) timeAhead(recorded manifest.Recorded) time.Duration {
	return time.UnixMilli(int64(min(recorded.Time, math.MaxInt64))).Sub(r.opts.Now())
}
