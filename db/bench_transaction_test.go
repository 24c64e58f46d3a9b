package db

import (
	"math/rand/v2"
	"testing"
	"time"
)

// BenchmarkTransactionGet looks up keys by the DB, by a read-only transaction and by one that may
// write but has not, in turns of a thousand keys. It reports the time of each, and those of the
// transactions relative to the DB's. A transaction begins with each turn.
func BenchmarkTransactionGet(b *testing.B) {
	const n, turn = 100_000, 1000
	d := benchStore(b, n, true)
	keys := benchKeys(n, false)
	rand.New(rand.NewPCG(6, 6)).Shuffle(n, func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	buf, at := make([]byte, 0, 128), 0
	run := func(get func(dst, key []byte) ([]byte, error)) {
		for range turn {
			var err error
			if buf, err = get(buf[:0], keys[at]); err != nil {
				b.Fatal(err)
			}
			at = (at + 1) % n
		}
	}
	ways := []func(){
		func() { run(d.GetTo) },
		func() {
			tx := d.NewTransaction(&TransactionOptions{ReadOnly: true})
			run(tx.GetTo)
			_ = tx.Close()
		},
		func() {
			tx := d.NewTransaction(nil)
			run(tx.GetTo)
			_ = tx.Close()
		},
	}
	var took [3]time.Duration
	turns := 0
	for range max(1, b.N/turn/len(ways)) {
		for i := range ways {
			way := (i + turns) % len(ways)
			begun := time.Now()
			ways[way]()
			took[way] += time.Since(begun)
		}
		turns++
	}
	for way, name := range []string{"db", "view", "update"} {
		b.ReportMetric(float64(took[way].Nanoseconds())/float64(turns*turn), name+"-ns/get")
		b.ReportMetric(float64(took[way])/float64(took[0]), name+"/db")
	}
}

// BenchmarkUpdate reads one key and writes it, in a transaction and without one.
func BenchmarkUpdate(b *testing.B) {
	const n = 10_000
	d := benchStore(b, n, false)
	keys, value := benchKeys(n, false), make([]byte, 100)
	b.Run("get and put", func(b *testing.B) {
		b.ReportAllocs()
		for i := range b.N {
			if _, err := d.Get(keys[i%n]); err != nil {
				b.Fatal(err)
			}
			if err := d.Put(keys[i%n], value, NoSync); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("transaction", func(b *testing.B) {
		b.ReportAllocs()
		for i := range b.N {
			err := d.Update(func(tx *Transaction) error {
				tx.SetWriteOptions(NoSync)
				if _, err := tx.Get(keys[i%n]); err != nil {
					return err
				}
				return tx.Put(keys[i%n], value)
			})
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}
