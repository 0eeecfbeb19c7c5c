// Clients of other makes in Go, each asserting what it sees: go run . BOOTSTRAP PREFIX franz|sarama|segmentio|franz-acls|sarama-acls
// With more arguments it logs in (login.go).
//
// Every scenario prints one line "ok NAME"; the first thing that is not as it should be ends the program with status 1.
package main

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"time"
)

const perCodec = 200

var (
	bootstrap string
	prefix    string
	ctx       context.Context
)

func check(err error) {
	if err != nil {
		fail("%v", err)
	}
}

func expect(what string, got, wanted any) {
	if fmt.Sprint(got) != fmt.Sprint(wanted) {
		fail("%s: got %v, wanted %v", what, got, wanted)
	}
}

func fail(format string, values ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", values...)
	debug.PrintStack()
	os.Exit(1)
}

// What a broker does not promise at once: a topic that was just made is told a moment later.
func eventually(what string, condition func() bool) {
	for end := time.Now().Add(20 * time.Second); !condition(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			fail("%s: not within 20 s", what)
		}
	}
}

func run(name string, scenario func()) {
	scenario()
	fmt.Println("ok", name)
}

func main() {
	bootstrap, prefix = os.Args[1], os.Args[2]
	limited, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	ctx = limited
	client := os.Args[3]
	if len(os.Args) > 4 {
		logins := map[string]func(login){"franz": franzLogin, "sarama": saramaLogin, "segmentio": segmentioLogin}
		logins[client](loginOf(os.Args[4:]))
		return
	}
	map[string]func(){
		"franz": franz, "sarama": saramaClient, "segmentio": segmentio, "franz-acls": franzACLs, "sarama-acls": saramaACLs,
	}[client]()
}
