package tables

import (
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/version"
)

// ApproximateSize returns approximately how many bytes of f belong to user keys in [start,
// limit), nil for no bound. It opens f only if a bound is within it.
func (t *Cache) ApproximateSize(f *version.FileMeta, start, limit []byte) (uint64, error) {
	cmp := t.options.Reader.Comparer
	smallest, largest := base.UserKey(f.Smallest), base.UserKey(f.Largest)
	if limit != nil && cmp.Compare(smallest, limit) >= 0 || start != nil && cmp.Compare(largest, start) < 0 {
		return 0, nil
	}
	atStart := start == nil || cmp.Compare(start, smallest) <= 0
	atEnd := limit == nil || cmp.Compare(largest, limit) < 0
	if atStart && atEnd {
		return f.Size, nil
	}
	r, err := t.Ref(f)
	if err != nil {
		return 0, err
	}
	defer r.Unref()
	// Bounds outside of the table are not looked up: its index ends with a separator, which may be above the
	// limit, and then the last block would not be counted.
	offset := func(key []byte, outside bool, otherwise uint64) (uint64, error) {
		if outside {
			return otherwise, nil
		}
		return r.ApproximateOffset(base.AppendInternalKey(nil, key, base.MaxSeq, base.KindSeek))
	}
	from, err := offset(start, atStart, 0)
	if err != nil {
		return 0, err
	}
	to, err := offset(limit, atEnd, f.Size)
	if err != nil || to < from {
		return 0, err
	}
	return to - from, nil
}
