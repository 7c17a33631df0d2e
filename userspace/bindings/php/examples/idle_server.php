<?php
// SPDX-License-Identifier: GPL-2.0
// php idle_server.php [SECONDS]: echoes lines, and kicks who is silent. Prints its port.

declare(strict_types=1);

require __DIR__ . '/../Timers.php';

$timeout = (float) ($argv[1] ?? 30);
$server = stream_socket_server('tcp://127.0.0.1:0');
echo substr(strrchr(stream_socket_get_name($server, false), ':'), 1), "\n";
$timers = new Twheel\Timers();
$clients = $ids = [];

$close = function (int $key) use (&$clients, &$ids, $timers): void {
    $timers->del($ids[$key]);
    fclose($clients[$key]);
    unset($clients[$key], $ids[$key]);
};

while (true) {
    $ready = [-2 => $timers->stream(), -1 => $server] + $clients;
    stream_select($ready, $none, $none, null);
    foreach ($ready as $key => $socket) {
        if ($key === -2) {
            continue;
        } elseif ($key === -1) {
            $client = stream_socket_accept($server);
            $key = get_resource_id($client);
            $clients[$key] = $client;
            $ids[$key] = $timers->add($timeout, $close, [$key], false);
        } elseif (($line = fgets($socket)) !== false) {
            $timers->restart($ids[$key]);
            fwrite($socket, $line);
        } else {
            $close($key);
        }
    }
    $timers->run();
}
