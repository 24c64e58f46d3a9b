package sstable

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
)

// forgetful is a policy whose filters deny one of their keys.
type forgetful struct {
	filter.BloomPolicy
	lost string
}

func (p forgetful) Name() string { return "test.Forgetful" }
func (p forgetful) KeyMayMatch(key, f []byte) bool {
	return string(key) != p.lost && p.BloomPolicy.KeyMayMatch(key, f)
}

// forgetfulGenerator is its generator, which does not know the lost key: the writer must
// not rely on it to check the filter.
type forgetfulGenerator struct{ filter.Generator }

func (p forgetful) NewGenerator() filter.Generator {
	return forgetfulGenerator{p.BloomPolicy.NewGenerator()}
}

// The Writer probes the finished filter with every key before it writes it. So it never
// writes a table whose filter denies one of its keys.
func TestAFilterThatDeniesAKeyOfItsTableIsNotWritten(t *testing.T) {
	es := plainEntries(300, 10)
	for _, lost := range []entries{es[:1], es[150:151], es[299:]} {
		p := forgetful{lost: string(base.UserKey(lost[0].Key))}
		var file bytes.Buffer
		w := NewWriter(&file, WriterOptions{Filter: p})
		addAll(t, w, es)
		_, err := w.Finish()
		require.ErrorContains(t, err, `the new filter "test.Forgetful" denies 1 of its 300 keys`)
		require.NotContains(t, err.Error(), p.lost, "keys stay out of errors")
		_, again := w.Finish()
		require.Equal(t, err, again, "the first error sticks")
	}
}
