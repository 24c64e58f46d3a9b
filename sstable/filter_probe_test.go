package sstable

import (
	"bytes"
	"testing"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/stretchr/testify/require"
)

// forgetful is a policy whose filters deny one key of those that went in.
type forgetful struct {
	filter.BloomPolicy
	lost string
}

func (p forgetful) Name() string { return "test.Forgetful" }
func (p forgetful) KeyMayMatch(key, f []byte) bool {
	return string(key) != p.lost && p.BloomPolicy.KeyMayMatch(key, f)
}

// forgetfulGenerator is its generator, which knows nothing of the lost key: the
// writer must not take it for one that checks.
type forgetfulGenerator struct{ filter.Generator }

func (p forgetful) NewGenerator() filter.Generator {
	return forgetfulGenerator{p.BloomPolicy.NewGenerator()}
}

// The finished filter is asked for every key before the table is finished: a
// table whose filter denies a key that it holds never comes to be.
func TestAFilterThatDeniesAKeyOfItsTableIsNotWritten(t *testing.T) {
	es := plainEntries(300, 10)
	for _, lost := range []entries{es[:1], es[150:151], es[299:]} {
		p := forgetful{lost: string(base.UserKey(lost[0].Key))}
		var file bytes.Buffer
		w := NewWriter(&file, WriterOptions{Filter: p})
		for _, e := range es {
			require.NoError(t, w.Add(e.Key, e.Value))
		}
		_, err := w.Finish()
		require.ErrorContains(t, err, `the filter "test.Forgetful", just made of 300 keys, denies 1 of them`)
		require.NotContains(t, err.Error(), p.lost, "keys stay out of errors")
		_, again := w.Finish()
		require.Equal(t, err, again, "the first error sticks")
	}
}

// The writer, with and without asking the filter for its keys: B21's price.
func BenchmarkWriterFilterProbe(b *testing.B) {
	es := plainEntries(20_000, 100)
	for _, c := range []struct {
		name string
		p    filter.Policy
	}{{"probe=no", unchecked(bloom)}, {"probe=yes", bloom}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			var file bytes.Buffer
			for b.Loop() {
				file.Reset()
				w := NewWriter(&file, WriterOptions{Filter: c.p, Compression: Snappy})
				for _, e := range es {
					_ = w.Add(e.Key, e.Value)
				}
				if _, err := w.Finish(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(es)), "ns/key")
		})
	}
}
