package console

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/test/browsertest"
)

var (
	picture        = flag.String("console.picture", "", "write a picture of a busy store's page to this file, such as ../docs/console.png")
	pictureSize    = flag.String("console.picture.size", "1180x1000", "its width and height; a height of 0 is that of the whole page")
	pictureDark    = flag.Bool("console.picture.dark", false, "make it in the dark scheme")
	pictureSeconds = flag.Int("console.picture.seconds", 75, "how long the store is used before")
)

// TestPicture makes the picture in docs/console.md, of a store that is read and written meanwhile.
func TestPicture(t *testing.T) {
	if *picture == "" {
		t.Skip("it makes a picture with -console.picture")
	}
	binary := browsertest.Find(t)
	o := &db.Options{}
	o.Memtables.Size, o.Cache.Size, o.Tables.Size, o.Compaction.MaxLevelBase = 1<<20, 4<<20, 256<<10, 2<<20
	store, err := db.Open(t.TempDir(), o)
	require.NoError(t, err)
	use := startUsing(t, store, 150_000)
	defer use()
	server := httptest.NewServer(Handler(store, &Options{Title: "/srv/shop/users", ShowKeys: *pictureDark, WriteToken: testToken}))
	defer server.Close()
	var width, height int
	_, err = fmt.Sscanf(*pictureSize, "%dx%d", &width, &height)
	require.NoError(t, err)
	p := browsertest.Open(t, binary, width, max(height, 1000), *pictureDark)
	p.Visit(server.URL + "/")
	for begin := time.Now(); time.Since(begin) < time.Duration(*pictureSeconds)*time.Second; {
		var ok bool
		do(p, `await new Promise(r => setTimeout(r, 1000)); return true`, &ok)
	}
	if height == 0 {
		var whole int
		do(p, `document.querySelector("#explain-key").value = "user00000042"; document.querySelector("#explain-form").requestSubmit();
document.querySelector("#card-form").requestSubmit();
await until(() => document.querySelector("#report table") && document.querySelector("#explanation .step")); document.querySelector("#slowest summary")?.click();
return document.documentElement.scrollHeight`, &whole)
		p.Resize(width, whole)
		do(p, `await new Promise(r => setTimeout(r, 1500)); return 1`, &whole)
	}
	f, err := os.Create(*picture)
	require.NoError(t, err)
	require.NoError(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(f, fewColors(p.Screenshot())))
	require.NoError(t, f.Close())
	require.Empty(t, p.Console)
}

// fewColors returns the picture with the 256 colors that it has most often, which makes its file small.
func fewColors(m image.Image) image.Image {
	count := map[color.RGBA]int{}
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(m.At(x, y)).(color.RGBA) }
	for y := m.Bounds().Min.Y; y < m.Bounds().Max.Y; y++ {
		for x := m.Bounds().Min.X; x < m.Bounds().Max.X; x++ {
			count[at(x, y)]++
		}
	}
	all := slices.SortedFunc(maps.Keys(count), func(a, b color.RGBA) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)))
	})
	var colors color.Palette
	for _, c := range all[:min(len(all), 256)] {
		colors = append(colors, c)
	}
	few := image.NewPaletted(m.Bounds(), colors)
	draw.Draw(few, few.Bounds(), m, m.Bounds().Min, draw.Src)
	return few
}

// startUsing fills a store, and reads and writes it until the returned function is called, which closes it.
func startUsing(t *testing.T, store *db.DB, keys int) (end func()) {
	key := func(i int) []byte { return fmt.Appendf(nil, "user%08d", i) }
	value := func(r *rand.Rand) []byte {
		v := bytes.Repeat([]byte{byte('a' + r.IntN(26))}, 60)
		for range 100 {
			v = append(v, byte(r.IntN(256)))
		}
		return v
	}
	fill := rand.New(rand.NewPCG(1, 1))
	for i := range keys {
		require.NoError(t, store.Put(key(2*i), value(fill), db.NoSync))
	}
	require.NoError(t, store.Compact(context.Background(), nil, nil))
	done := make(chan struct{})
	var group sync.WaitGroup
	each := func(pause time.Duration, seed uint64, do func(r *rand.Rand)) {
		group.Go(func() {
			r, tick := rand.New(rand.NewPCG(seed, 2)), time.NewTicker(pause)
			defer tick.Stop()
			for {
				select {
				case <-done:
					return
				case <-tick.C:
					do(r)
				}
			}
		})
	}
	each(10*time.Millisecond, 1, func(r *rand.Rand) {
		for range 100 + r.IntN(60) {
			_, _ = store.Get(key(r.IntN(3 * keys))) // a third is there
		}
	})
	each(20*time.Millisecond, 2, func(r *rand.Rand) {
		for range 20 + r.IntN(10) {
			_ = store.Put(key(2*r.IntN(keys)), value(r), db.NoSync)
		}
		_ = store.Put(key(2*r.IntN(keys)), value(r), db.Sync)
	})
	return func() {
		close(done)
		group.Wait()
		require.NoError(t, store.Close())
	}
}
