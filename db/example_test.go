package db_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sievedb/sievedb"
	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter/rangefilter"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/vfs"
)

// The quickstart of README.md, line for line.
func Example() {
	dir, err := os.MkdirTemp("", "quickstart")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	store, err := db.Open(dir, nil) // creates the database if it does not exist
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	// By default, a write is durable when it returns.
	if err := store.Put([]byte("spider"), []byte("8 legs"), nil); err != nil {
		log.Fatal(err)
	}
	value, err := store.Get([]byte("spider"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("a spider has %s\n", value)

	if _, err := store.Get([]byte("unicorn")); errors.Is(err, db.ErrNotFound) {
		fmt.Println("there is no unicorn")
	}
	// Output:
	// a spider has 8 legs
	// there is no unicorn
}

// must ends an example that failed.
func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// open opens a database in memory, with entries "key=value" or "key".
func open(o db.Options, entries ...string) *db.DB {
	if o.FS == nil {
		o.FS = vfs.NewMem()
	}
	store, err := db.Open("example", &o)
	must(err)
	for _, entry := range entries {
		key, value, _ := strings.Cut(entry, "=")
		must(store.Put([]byte(key), []byte(value), db.NoSync))
	}
	return store
}

// show prints all entries.
func show(store *db.DB) {
	entries, failed := store.All(nil)
	for key, value := range entries {
		fmt.Printf("%s: %s\n", key, value)
	}
	must(failed())
}

// The writes of a batch become visible and durable together. A later write wins over an earlier one.
func ExampleDB_Apply() {
	store := open(db.Options{})
	defer store.Close()
	var b db.Batch
	b.Put([]byte("alice"), []byte("70"))
	b.Put([]byte("bob"), []byte("30"))
	b.Put([]byte("alice"), []byte("60"))
	must(store.Apply(&b, nil))
	show(store)
	b.Reset() // and the batch's memory is used again
	fmt.Println(b.Len(), "writes in it")
	// Output:
	// alice: 60
	// bob: 30
	// 0 writes in it
}

// GetTo appends to a buffer of the caller, so a loop of lookups need not allocate. For an absent key the buffer does
// not change.
func ExampleDB_GetTo() {
	store := open(db.Options{}, "one=eins", "two=zwei")
	defer store.Close()
	buf := make([]byte, 0, 64)
	for _, key := range []string{"one", "two", "three"} {
		var err error
		buf, err = store.GetTo(buf[:0], []byte(key))
		fmt.Printf("%q %v\n", buf, err)
	}
	// Output:
	// "eins" <nil>
	// "zwei" <nil>
	// "" sievedb: not found
}

// MultiGet looks up several keys at one moment. A key without a value has a nil one.
func ExampleDB_MultiGet() {
	store := open(db.Options{}, "bee=6 legs", "snake=")
	defer store.Close()
	keys := [][]byte{[]byte("bee"), []byte("snake"), []byte("unicorn")}
	values, err := store.MultiGet(keys)
	must(err)
	for i, v := range values {
		fmt.Printf("%s: %q, stored: %t\n", keys[i], v, v != nil)
	}
	// Output:
	// bee: "6 legs", stored: true
	// snake: "", stored: true
	// unicorn: "", stored: false
}

// A loop over the keys with a prefix. Nothing has to be closed.
func ExampleDB_All() {
	store := open(db.Options{}, "order/anna=a pot", "order/bert=a lid", "user/anna=")
	defer store.Close()
	entries, failed := store.All(db.PrefixBounds([]byte("order/")))
	for key, value := range entries {
		fmt.Printf("%s: %s\n", key, value)
	}
	must(failed())
	// Output:
	// order/anna: a pot
	// order/bert: a lid
}

// An iterator shows the database as it was when the iterator was made. LowerBound is in the range, UpperBound is not.
func ExampleIterator_All() {
	store := open(db.Options{}, "apple", "banana", "cherry", "date")
	defer store.Close()
	it, err := store.NewIterator(&db.IterOptions{LowerBound: []byte("b"), UpperBound: []byte("d")})
	must(err)
	defer it.Close()
	must(store.Delete([]byte("banana"), nil))
	for key := range it.All() {
		fmt.Printf("%s\n", key)
	}
	must(it.Err()) // whether the loop saw everything
	// Output:
	// banana
	// cherry
}

// A new iterator is before the first key. After the last one, Prev turns back to it.
func ExampleIterator_Next() {
	store := open(db.Options{}, "Monday", "Sunday", "Friday")
	defer store.Close()
	it, err := store.NewIterator(nil)
	must(err)
	defer it.Close()
	for it.Next() {
		fmt.Printf("%s ", it.Key())
	}
	fmt.Print("and back ")
	for it.Prev() {
		fmt.Printf("%s ", it.Key())
	}
	must(it.Err()) // whether the loops saw everything
	// Output: Friday Monday Sunday and back Sunday Monday Friday
}

// Movements return whether the iterator is at a key afterwards.
func ExampleIterator_SeekLT() {
	store := open(db.Options{}, "2024-02-28", "2024-02-29", "2024-03-01")
	defer store.Close()
	it, err := store.NewIterator(nil)
	must(err)
	defer it.Close()
	for ok := it.SeekLT([]byte("2024-03")); ok; ok = it.Prev() {
		fmt.Printf("%s ", it.Key())
	}
	must(it.Err())
	// Output: 2024-02-29 2024-02-28
}

// The newest order of each user, by one iterator.
func ExampleIterator_SetBounds() {
	store := open(db.Options{}, "order/anna/1", "order/anna/2", "order/bert/1", "user/anna")
	defer store.Close()
	it, err := store.NewIterator(&db.IterOptions{KeysOnly: true})
	must(err)
	defer it.Close()
	for _, user := range []string{"anna", "bert"} {
		bounds := db.PrefixBounds([]byte("order/" + user + "/"))
		it.SetBounds(bounds.LowerBound, bounds.UpperBound)
		if it.Last() {
			fmt.Printf("%s\n", it.Key())
		}
	}
	must(it.Err())
	// Output:
	// order/anna/2
	// order/bert/1
}

// A clone shows what its iterator shows, whatever was written since.
func ExampleIterator_Clone() {
	store := open(db.Options{}, "order/1", "order/2")
	defer store.Close()
	it, err := store.NewIterator(nil)
	must(err)
	defer it.Close()
	must(store.Delete([]byte("order/1"), nil))
	clone, err := it.Clone(nil)
	must(err)
	defer clone.Close()
	for key := range clone.Backward() {
		fmt.Printf("%s\n", key)
	}
	must(clone.Err())
	// Output:
	// order/2
	// order/1
}

// A snapshot keeps showing the database as it was when the snapshot was created.
func ExampleDB_NewSnapshot() {
	store := open(db.Options{}, "motto=slow and steady")
	defer store.Close()
	before := store.NewSnapshot()
	defer before.Close()
	must(store.Put([]byte("motto"), []byte("move fast"), nil))
	then, err := before.Get([]byte("motto"))
	fmt.Printf("%s %v\n", then, err)
	show(store)
	// Output:
	// slow and steady <nil>
	// motto: move fast
}

// A prefix filter saves scans that find nothing: the keys of orders begin with their customer, and most tables have no
// orders of most customers.
func ExamplePrefixBounds() {
	customer := rangefilter.NewPrefix(rangefilter.SeparatedPrefix('/', 1), 10)
	store := open(db.Options{Filters: db.FilterOptions{RangePolicies: []rangefilter.Policy{customer}}})
	defer store.Close()
	for c := 0; c < 1000; c += 2 {
		must(store.Put(fmt.Appendf(nil, "customer%04d/order", c), []byte("…"), db.NoSync))
	}
	must(store.Flush())
	for _, c := range []string{"customer0500/", "customer0501/"} {
		entries, failed := store.All(db.PrefixBounds([]byte(c)))
		for key := range entries {
			fmt.Printf("%s\n", key)
		}
		must(failed())
		m := store.Metrics().Total()
		fmt.Println(c, "tables skipped:", m.RangeNegatives, "of", m.RangeChecks)
	}
	// Output:
	// customer0500/order
	// customer0500/ tables skipped: 0 of 1
	// customer0501/ tables skipped: 1 of 2
}

// Two namespaces with equal keys, listed, and one of them dropped.
func ExampleDB_Namespace() {
	store := open(db.Options{})
	defer store.Close()
	for _, name := range []string{"users", "orders"} {
		n, err := store.Namespace(name)
		must(err)
		must(n.Put([]byte("1"), []byte("the first of "+name), nil))
	}
	fmt.Println(store.Namespaces())
	users, err := store.Namespace("users")
	must(err)
	value, err := users.Get([]byte("1"))
	fmt.Printf("%s %v\n", value, err)
	must(users.Drop(context.Background()))
	fmt.Println(store.Namespaces())
	// Output:
	// [orders users] <nil>
	// the first of users <nil>
	// [orders] <nil>
}

// Sessions of last year are deleted; those of this year stay.
func ExampleDB_DeleteRange() {
	store := open(db.Options{}, "session/2025-07-01", "session/2025-12-31", "session/2026-01-01")
	defer store.Close()
	must(store.DeleteRange(context.Background(), []byte("session/2025"), []byte("session/2026"), nil))
	show(store)
	// Output: session/2026-01-01:
}

// A shopping cart is replaced as a whole.
func ExampleBatch_DeleteRange() {
	store := open(db.Options{}, "cart/17/item/1=a pot", "cart/17/item/2=a lid")
	defer store.Close()
	cart := db.PrefixBounds([]byte("cart/17/"))
	var b db.Batch
	b.DeleteRange(cart.LowerBound, cart.UpperBound)
	b.Put([]byte("cart/17/item/1"), []byte("a kettle"))
	must(store.Apply(&b, nil))
	show(store)
	// Output: cart/17/item/1: a kettle
}

// A batch can be sent elsewhere: its bytes are LevelDB's.
func ExampleBatch_MarshalBinary() {
	var writes, received db.Batch
	writes.Put([]byte("apple"), []byte("red"))
	writes.Delete([]byte("pear"))
	data, err := writes.MarshalBinary()
	must(err)
	must(received.UnmarshalBinary(data))
	for i, entry := range received.All() {
		fmt.Printf("%d: %s, delete: %t\n", i, entry.Key, entry.Kind == db.EntryDelete)
	}
	// Output:
	// 0: apple, delete: false
	// 1: pear, delete: true
}

// A session ends after half an hour. The example moves the clock itself.
func ExampleDB_PutTTL() {
	var minutes atomic.Int64 // the clock is read by several goroutines
	now := func() time.Time { return time.Date(2030, 1, 1, 12, int(minutes.Load()), 0, 0, time.UTC) }
	store := open(db.Options{Expiry: db.ExpiryOptions{Prefixes: [][]byte{[]byte("session/")}, Clock: now}})
	defer store.Close()
	must(store.PutTTL([]byte("session/8f3a"), []byte("alice"), 30*time.Minute, nil))
	for range 2 {
		user, err := store.Get([]byte("session/8f3a"))
		fmt.Printf("%s %q %v\n", now().Format(time.TimeOnly), user, err)
		minutes.Add(30)
	}
	// Output:
	// 12:00:00 "alice" <nil>
	// 12:30:00 "" sievedb: not found
}

// Compactions delete the sessions of an old version of a program and rewrite its other values.
func ExampleCompactionOptions_filter() {
	filter := func(key, value []byte) ([]byte, bool) {
		switch {
		case bytes.HasPrefix(key, []byte("session/v1/")):
			return nil, false
		case bytes.HasPrefix(value, []byte("http://")):
			return append([]byte("https://"), value[len("http://"):]...), true
		}
		return value, true
	}
	entries := []string{"session/v1/7=alice", "session/v2/8=bob", "home=http://example.com"}
	store := open(db.Options{Compaction: db.CompactionOptions{Filter: filter}}, entries...)
	defer store.Close()
	must(store.Compact(context.Background(), nil, nil)) // now, instead of sometime
	show(store)
	fmt.Println(store.Metrics().Compactions.ValuesDropped, "dropped")
	// Output:
	// home: https://example.com
	// session/v2/8: bob
	// 1 dropped
}

// A table that was written without a store is added to one.
func ExampleDB_Ingest() {
	disk := vfs.NewMem()
	file, err := disk.Create("incoming.ldb")
	must(err)
	w := sstable.NewWriter(file, sstable.WriterOptions{})
	for i := range 1000 {
		key := sstable.Key{User: fmt.Appendf(nil, "row%03d", i)}
		must(w.Add(key.Append(nil), fmt.Append(nil, i*i)))
	}
	_, err = w.Finish()
	must(err)
	must(file.Close())

	store := open(db.Options{FS: disk})
	defer store.Close()
	info, err := store.Ingest(context.Background(), []string{"incoming.ldb"}, nil)
	must(err)
	value, err := store.Get([]byte("row012"))
	must(err)
	fmt.Printf("%d entries, %d table linked; row012 is %s\n", info.Entries, info.Linked, value)
	// Output: 1000 entries, 1 table linked; row012 is 144
}

func ExampleDB_NewLoader() {
	store := open(db.Options{})
	defer store.Close()
	l, err := store.NewLoader()
	must(err)
	defer l.Close()                                         // discards what is not committed
	for _, animal := range []string{"ant", "bee", "crab"} { // in the order of keys
		must(l.Put([]byte(animal), []byte("legs")))
	}
	fmt.Println(store.Has([]byte("bee")))
	must(l.Commit())
	fmt.Println(store.Has([]byte("bee")))
	// Output:
	// false <nil>
	// true <nil>
}

// A transfer between two accounts: both change, or none.
func ExampleDB_Update() {
	store := open(db.Options{}, "alice=100", "bob=0")
	defer store.Close()
	transfer := func(from, to string, amount int) error {
		return store.Update(func(t *db.Transaction) error {
			var balances [2]int
			for i, name := range []string{from, to} {
				value, err := t.Get([]byte(name))
				if err != nil {
					return err
				}
				if balances[i], err = strconv.Atoi(string(value)); err != nil {
					return err
				}
			}
			if balances[0] < amount {
				return fmt.Errorf("%s has only %d", from, balances[0])
			}
			if err := t.Put([]byte(from), strconv.AppendInt(nil, int64(balances[0]-amount), 10)); err != nil {
				return err
			}
			return t.Put([]byte(to), strconv.AppendInt(nil, int64(balances[1]+amount), 10))
		})
	}
	fmt.Println(transfer("alice", "bob", 30))
	fmt.Println(transfer("alice", "bob", 80))
	show(store)
	// Output:
	// <nil>
	// alice has only 70
	// alice: 70
	// bob: 30
}

// A transaction that is not one function, and a conflict.
func ExampleDB_NewTransaction() {
	store := open(db.Options{})
	defer store.Close()
	t := store.NewTransaction(nil)
	defer t.Close() // does nothing after Commit
	if _, err := t.Get([]byte("seat 7A")); errors.Is(err, db.ErrNotFound) {
		must(t.Put([]byte("seat 7A"), []byte("me")))
	}
	// Meanwhile another client takes the seat.
	must(store.Put([]byte("seat 7A"), []byte("you"), nil))
	fmt.Println("conflict:", errors.Is(t.Commit(), db.ErrConflict))
	// Output: conflict: true
}

// A lock that one of several programs' goroutines gets.
func ExampleDB_CompareAndSwap() {
	store := open(db.Options{})
	defer store.Close()
	for _, name := range []string{"anna", "ben"} {
		swapped, err := store.CompareAndSwap([]byte("owner"), nil, []byte(name), nil)
		fmt.Println(name, swapped, err)
	}
	// Output:
	// anna true <nil>
	// ben false <nil>
}

// A counter that many goroutines may increment.
func ExampleDB_Modify() {
	store := open(db.Options{})
	defer store.Close()
	for range 3 {
		must(store.Modify([]byte("visits"), func(old []byte) ([]byte, error) {
			n, _ := strconv.Atoi(string(old)) // old is nil at first
			return []byte(strconv.Itoa(n + 1)), nil
		}, db.NoSync))
	}
	show(store)
	// Output: visits: 3
}

// Explain reports what a lookup did. Here two tables may contain the key: the filter of the newer one excludes it, so
// only the older one is read. (String returns the same as text for people, with times.)
func ExampleDB_Explain() {
	store := open(db.Options{}, "ant", "bee", "spider")
	defer store.Close()
	must(store.Flush()) // makes a table of level 0
	must(store.Put([]byte("apple"), nil, nil))
	must(store.Put([]byte("zucchini"), nil, nil))
	must(store.Flush())
	x, err := store.Explain([]byte("bee"))
	must(err)
	for _, s := range x.Steps {
		fmt.Printf("%-8s  filter: %-6s  found: %-5v  block from disk: %v\n", s.Run, s.Filter, s.Found, s.BlockFromDisk)
	}
	fmt.Printf("disk reads %d, saved %d, wasted %d\n", x.DiskReads, x.ReadsSaved, x.ReadsWasted)
	// Output:
	// memtable  filter: none    found: false  block from disk: false
	// table     filter: absent  found: false  block from disk: false
	// table     filter: maybe   found: true   block from disk: true
	// disk reads 1, saved 1, wasted 0
}

// Metrics counts the lookups of each level and what filters saved.
func ExampleDB_Metrics() {
	store := open(db.Options{}, "ant", "bee", "spider")
	defer store.Close()
	must(store.Flush())
	for i := range 1000 {
		_, err := store.Has(fmt.Appendf(nil, "b%d", i)) // none of them is stored
		must(err)
	}
	m := store.Metrics()
	l := m.Levels[0]
	fmt.Println("lookups:", m.Lookups.Count, "found:", m.Lookups.Found)
	fmt.Println("each check is a negative or a false positive:", l.FilterNegatives+l.FilterFalsePositives == l.FilterChecks)
	fmt.Println("at most 2 % false positives:", l.FilterFalsePositives <= 20)
	// Output:
	// lookups: 1000 found: 0
	// each check is a negative or a false positive: true
	// at most 2 % false positives: true
}

// How long do writes wait for the disk? The file system in memory answers within a second.
func ExampleDB_Metrics_latency() {
	store := open(db.Options{})
	defer store.Close()
	for i := range 3 {
		must(store.Put(fmt.Appendf(nil, "key%d", i), []byte("value"), db.Sync))
	}
	puts := store.Metrics().Latency.SyncedPut
	fmt.Println("measured:", puts.Count)
	fmt.Println("99 % below a second:", puts.Quantile(0.99) < time.Second)
	for _, b := range puts.Buckets {
		if b.From > time.Minute {
			fmt.Println(b.Count, "writes from", b.From, "to", b.To)
		}
	}
	// Output:
	// measured: 3
	// 99 % below a second: true
}

// A night with many writes gets more compactions and a smaller cache than the day.
func ExampleDB_SetOptions() {
	store := open(db.Options{})
	defer store.Close()
	o := store.Options()
	o.Cache.Size = 8 << 20
	o.Compaction.MaxConcurrent = 2
	must(store.SetOptions(&o))
	fmt.Println("cache:", store.Metrics().Cache.Capacity>>20, "MiB")

	o.ReadOnly = true
	fmt.Println(store.SetOptions(&o))
	// Output:
	// cache: 8 MiB
	// sievedb: SetOptions: Options.ReadOnly cannot be changed while the store is open; begin with the copy that DB.Options returns
}

// While a backup program copies the disk, no compaction should write.
func ExampleDB_PauseCompactions() {
	store := open(db.Options{})
	defer store.Close()
	resume, err := store.PauseCompactions(context.Background())
	must(err)
	fmt.Println("pauses:", store.Metrics().Compactions.Pauses)
	resume()
	fmt.Println("pauses:", store.Metrics().Compactions.Pauses)
	// Output:
	// pauses: 1
	// pauses: 0
}

// The logs are on a device of their own. Later calls of Open find them without the option.
func ExampleOptions_logDir() {
	disks := vfs.NewMem()
	store := open(db.Options{FS: disks, LogDir: "fast/logs"}, "key=value")
	must(store.Close())
	fmt.Println(disks.List("fast/logs"))
	store = open(db.Options{FS: disks})
	defer store.Close()
	show(store)
	// Output:
	// [000001.log LOCK LOGS] <nil>
	// key: value
}

// The copy has what was written before, and is a database of its own.
func ExampleDB_Checkpoint() {
	disk := vfs.NewMem()
	store := open(db.Options{FS: disk}, "fruit=apple")
	info, err := store.Checkpoint(context.Background(), "copies/monday", nil)
	must(err)
	must(store.Put([]byte("fruit"), []byte("pear"), db.NoSync))
	must(store.Close())
	store, err = db.Open("copies/monday", &db.Options{FS: disk})
	must(err)
	defer store.Close()
	show(store)
	fmt.Println("at sequence number", info.Seq)
	// Output:
	// fruit: apple
	// at sequence number 1
}

// How much the users of a program store, with what is not in tables yet.
func ExampleDB_EstimateSize() {
	photo := strings.Repeat("p", 100_000)
	store := open(db.Options{}, "user/anna/photo="+photo, "user/bert/photo="+photo)
	defer store.Close()
	bounds := db.PrefixBounds([]byte("user/anna/"))
	size, err := store.EstimateSize(bounds.LowerBound, bounds.UpperBound)
	must(err)
	usage, err := store.DiskUsage()
	must(err)
	fmt.Printf("anna: %d KB in memory, %d in tables\n", size.Memtables/1000, size.Tables)
	fmt.Printf("logs: %d KB, tables: %d\n", (usage.Logs-usage.LogsReserved)/1000, usage.Tables)
	// Output:
	// anna: 100 KB in memory, 0 in tables
	// logs: 200 KB, tables: 0
}

// Three databases share one cache, the memory of memtables, open files and compaction slots.
func ExampleNewResources() {
	shared, err := db.NewResources(db.ResourcesOptions{MaxStores: 8, CacheSize: 64 << 20, MemtableSize: 32 << 20})
	must(err)
	for _, tenant := range []string{"north", "south", "west"} {
		store := open(db.Options{Resources: shared}, "name="+tenant)
		defer store.Close()
	}
	m := shared.Metrics()
	fmt.Printf("%d of %d stores, %d of %d MiB for memtables\n", m.Stores, m.MaxStores, m.Memtables.Used>>20, m.Memtables.Limit>>20)
	// Output: 3 of 8 stores, 3 of 32 MiB for memtables
}

// A custom comparer: keys in descending order. The database contains its name and opens only with a comparer of that
// name.
func ExampleComparer() {
	store := open(db.Options{Comparer: &sievedb.Comparer{
		Name:    "example.descending",
		Compare: func(a, b []byte) int { return bytes.Compare(b, a) },
	}}, "a=1", "b=2", "c=3")
	defer store.Close()
	show(store)
	// Output:
	// c: 3
	// b: 2
	// a: 1
}

// A CorruptionError says where the damage is.
func ExampleCorruptionError() {
	disk := vfs.NewMem()
	must(disk.MkdirAll("example"))
	file, err := disk.Create("example/CURRENT")
	must(err)
	_, err = file.Write([]byte("no name\n"))
	must(err)
	store, err := db.Open("example", &db.Options{FS: disk})
	if err == nil {
		panic(store.Close())
	}
	var damage *sievedb.CorruptionError
	if errors.As(err, &damage) {
		fmt.Println(damage.Part, "at offset", damage.Offset)
	}
	fmt.Println(errors.Is(err, db.ErrCorruption))
	// Output:
	// CURRENT at offset 0
	// true
}
