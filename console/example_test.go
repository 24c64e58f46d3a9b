package console_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/sievedb/sievedb/console"
	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

// A program mounts the page next to its own.
func ExampleHandler() {
	store, err := db.Open("dir", &db.Options{FS: vfs.NewMem()})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	mux := http.NewServeMux()
	mux.Handle("/console/", http.StripPrefix("/console", console.Handler(store, nil)))

	server := httptest.NewServer(mux)
	defer server.Close()
	answer, err := http.Get(server.URL + "/console/")
	if err != nil {
		log.Fatal(err)
	}
	defer answer.Body.Close()
	fmt.Println(answer.Status)
	// Output: 200 OK
}
