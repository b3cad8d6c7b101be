package zmtp_test

import (
	"context"
	"fmt"

	"github.com/banyan-llm/banyan/router/kvevents/zmtp"
)

// A subscriber is told when its connection is up, then gets messages whose
// first frame has its prefix.
func Example() {
	pub, err := zmtp.ListenPub("tcp://127.0.0.1:*", zmtp.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pub.Close()
	sub := zmtp.DialSub("tcp://"+pub.Addr().String(), "kv@", zmtp.Options{})
	defer sub.Close()

	ctx := context.Background()
	if m, err := sub.Recv(ctx); err == nil && m.Kind == zmtp.Up {
		fmt.Println("up")
	}
	for pub.Subscribers() == 0 { // the subscription is on its way
		continue
	}
	pub.Send([]byte("other"), []byte("not for us"))
	pub.Send([]byte("kv@host"), []byte("hello"))
	m, err := sub.Recv(ctx)
	fmt.Printf("%s %v\n", m.Frames, err)
	// Output:
	// up
	// [kv@host hello] <nil>
}

// A DEALER asks a ROUTER, with the empty delimiter in front.
func ExampleListenRouter() {
	router, err := zmtp.ListenRouter("tcp://127.0.0.1:*", zmtp.Options{}, func(r *zmtp.Request) {
		_ = r.Reply(nil, append([]byte("you said "), r.Frames[1]...))
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer router.Close()
	ctx := context.Background()
	dealer, err := zmtp.DialDealer(ctx, "tcp://"+router.Addr().String(), zmtp.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer dealer.Close()
	_ = dealer.Send(nil, []byte("hello"))
	frames, _, err := dealer.Recv(ctx)
	fmt.Printf("%s %v\n", frames[1], err)
	// Output: you said hello <nil>
}
