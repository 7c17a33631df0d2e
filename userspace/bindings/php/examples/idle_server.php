<?php
// SPDX-License-Identifier: GPL-2.0
// php idle_server.php [SECONDS]: echoes what clients send, and kicks silent ones. Prints its port.

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
        if ($key === -1 && ($client = @stream_socket_accept($server, 0)) !== false) {
            stream_set_blocking($client, false);
            $id = get_resource_id($client);
            $clients[$id] = $client;
            $ids[$id] = $timers->add($timeout, $close, [$id], false);
        } elseif ($key >= 0 && ($text = (string) @fread($socket, 8192)) !== '') {
            $timers->restart($ids[$key]);
            // Close the connection of a client that does not read the echo.
            @fwrite($socket, $text) === strlen($text) || $close($key);
        } elseif ($key >= 0 && feof($socket)) {
            $close($key);
        }
    }
    $timers->run();
}
