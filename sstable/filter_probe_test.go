package sstable

import (
	"bytes"
	"testing"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/stretchr/testify/require"
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
		for _, e := range es {
			require.NoError(t, w.Add(e.Key, e.Value))
		}
		_, err := w.Finish()
		require.ErrorContains(t, err, `the new filter "test.Forgetful" denies 1 of its 300 keys`)
		require.NotContains(t, err.Error(), p.lost, "keys stay out of errors")
		_, again := w.Finish()
		require.Equal(t, err, again, "the first error sticks")
	}
}

// The writer with and without probing the filter with its keys, which prevents B21.
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
