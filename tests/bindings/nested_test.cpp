// SPDX-License-Identifier: GPL-2.0
// A callback runs its loop, or throws out of it: other timers go on. Prints TAP.
#include <twheel/asio.hpp>
#include <twheel/glib.h>
#include <twheel/libev.h>

#include <cstdio>
#include <stdexcept>

#include "tap.hpp"

using namespace std::chrono_literals;

namespace {

/*
 * Two timers; the callback of the first runs the loop until the second has expired, or time is
 * up.
 */
struct nest {
	explicit nest(tw::wheel &wheel) : first(wheel, 5ms, 1), second(wheel, 20ms, 2), w(wheel)
	{
	}

	/* Calls @turn until the second timer has expired. */
	template <class F> void on_event(const tw::event &e, F turn)
	{
		events++;
		if (e.user_data == 2)
			return;
		for (auto until = w.after(20s); events < 2 && w.now() < until;)
			turn();
		came = events == 2;
	}

	tw::timer first, second;
	tw::wheel &w;
	unsigned int events = 0;
	bool came = false;
};

void nested_in_asio()
{
	tw::wheel w;
	nest n(w);
	asio::io_context io;
	tw::asio_adapter adapter(io.get_executor(), w, [&](const tw::event &e) {
		n.on_event(e, [&] { io.run_one_for(50ms); });
		if (n.came)
			adapter.detach();
	});

	io.run();
	check(n.came, "Asio: a timer comes in a nested run_one_for()");
}

void thrown_by_asio()
{
	tw::wheel w;
	tw::timer a(w, 5ms, 1), b(w, 5ms, 2), c(w, 20ms, 3);
	asio::io_context io;
	unsigned int events = 0, caught = 0;
	tw::asio_adapter adapter(io.get_executor(), w, [&](const tw::event &) {
		if (++events == 1)
			throw std::runtime_error("from a callback");
		if (events == 3)
			adapter.detach();
	});
	asio::steady_timer limit(io, 20s);

	limit.async_wait([&](const auto &ec) {
		if (!ec)
			io.stop();
	});
	for (bool over = false; !over;) {
		try {
			while (events < 3 && io.run_one())
				;
			over = true;
		} catch (const std::runtime_error &) {
			caught++;
		}
	}
	check(events == 3 && caught == 1, "Asio: the others come after an exception");
}

void nested_in_glib()
{
	struct both {
		nest n;
		twheel_glib adapter;
	};

	tw::wheel w;
	both b = { nest(w), {} };

	twheel_glib_attach(&b.adapter, nullptr, w.get(), [](const tw::event *e, void *arg) {
		static_cast<both *>(arg)->n.on_event(*e, [] {
			if (!g_main_context_iteration(nullptr, FALSE))
				g_usleep(1000);
		});
	}, &b);
	for (auto until = w.after(20s); b.n.events < 2 && w.now() < until;)
		if (!g_main_context_iteration(nullptr, FALSE))
			g_usleep(1000);
	twheel_glib_detach(&b.adapter);
	check(b.n.came, "GLib: a timer comes in a nested loop");
}

void nested_in_libev()
{
	struct both {
		nest n;
		twheel_ev adapter;
	};

	tw::wheel w;
	both b = { nest(w), {} };
	struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);

	twheel_ev_attach(&b.adapter, loop, w.get(), [](const tw::event *e, void *arg) {
		both *self = static_cast<both *>(arg);

		self->n.on_event(*e, [self] { ev_run(self->adapter.loop, EVRUN_ONCE); });
	}, &b);
	while (b.n.events < 2)
		ev_run(loop, EVRUN_ONCE);
	twheel_ev_detach(&b.adapter);
	ev_loop_destroy(loop);
	check(b.n.came, "libev: a timer comes in a nested ev_run()");
}

} // namespace

int main()
{
	nested_in_asio();
	thrown_by_asio();
	nested_in_glib();
	nested_in_libev();
	return done_testing();
}
