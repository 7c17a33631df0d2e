// SPDX-License-Identifier: GPL-2.0
/* Uses twheel.hpp with error codes only, as programs without exceptions do. */
#include <twheel.hpp>

using namespace std::chrono_literals;

int main()
{
	std::error_code ec;
	tw::wheel w(tw::options{}, ec);
	tw::timer t(w, w.after(1ms), 1, ec);
	tw::timer f(w, 1h, [] {}, ec);
	tw::event e{};

	t.set(2ms, ec);
	w.wait(std::chrono::hours::max(), ec);
	return w.read(&e, 1, ec) == 1 && !ec ? 0 : 1;
}
