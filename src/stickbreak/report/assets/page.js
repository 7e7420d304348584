"use strict";
(function () {
  var root = document.documentElement, main = document.querySelector("main");
  var all = function (query, inside) { return Array.from((inside || document).querySelectorAll(query)); };
  root.classList.add("scripted");

  function select(k, keep) {
    main.classList.toggle("selecting", k !== null);
    all("[data-k]").forEach(function (e) { e.classList.toggle("on", e.dataset.k === k); });
    all("[data-ks]").forEach(function (e) {
      e.classList.toggle("on", e.dataset.ks.split(" ").includes(k));
    });
    all("[data-pick]").forEach(function (e) {
      if (e.dataset.pick === (k === null ? "all" : k)) { e.setAttribute("aria-current", "true"); }
      else { e.removeAttribute("aria-current"); }
    });
    if (!keep) {
      try { history.replaceState(null, "", k === null ? "#" : "#k=" + k); } catch (error) { }
    }
    var said = document.getElementById("said");
    if (said) { said.textContent = k === null ? "all shown" : said.dataset.noun + " " + k + " is marked"; }
    document.dispatchEvent(new CustomEvent("picked", { detail: k }));
  }
  function fromAddress() {
    var found = /^#k=(\d+)$/.exec(location.hash);
    select(found ? found[1] : null, true);
  }
  document.addEventListener("click", function (event) {
    var pick = event.target.closest("[data-pick]");
    if (pick) {
      event.preventDefault();
      select(pick.dataset.pick === "all" ? null : pick.dataset.pick);
      return;
    }
    var mark = event.target.closest("svg [data-k], tbody tr[data-k]");
    if (mark) { select(mark.classList.contains("on") ? null : mark.dataset.k); }
  });
  document.addEventListener("keydown", function (event) {
    if (event.key === "Escape") { select(null); }
  });
  window.addEventListener("hashchange", fromAddress);

  all("table.sortable").forEach(function (table) {
    if (1 >= table.tBodies[0].rows.length) { return; }
    all("thead th", table).forEach(function (head, column) {
      if (!head.textContent.trim()) { return; }
      var button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", function () {
        var up = head.getAttribute("aria-sort") === "descending";
        all("thead th", table).forEach(function (other) { other.removeAttribute("aria-sort"); });
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        var rows = Array.from(table.tBodies[0].rows);
        var value = function (row) {
          var cell = row.cells[column];
          return cell.dataset.v === undefined ? cell.textContent : Number(cell.dataset.v);
        };
        rows.sort(function (a, b) {
          var x = value(a), y = value(b);
          var order = typeof x === "number" ? (typeof y === "number" ? x - y : 1)
            : (typeof y === "number" ? -1 : x.localeCompare(y));
          return up ? order : -order;
        });
        table.tBodies[0].append(...rows);
      });
    });
  });

  all("[data-copy]").forEach(function (button) {
    button.hidden = false;
    button.addEventListener("click", function () {
      var code = document.getElementById(button.dataset.copy);
      var range = document.createRange();
      range.selectNodeContents(code);
      var marked = getSelection();
      marked.removeAllRanges();
      marked.addRange(range);
      if (navigator.clipboard) { navigator.clipboard.writeText(code.textContent).catch(function () { }); }
    });
  });

  var theme = document.getElementById("theme");
  if (theme) {
    theme.hidden = false;
    theme.addEventListener("click", function () {
      var dark = root.dataset.theme ? root.dataset.theme === "dark"
        : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = dark ? "light" : "dark";
    });
  }

  var block = document.getElementById("data");
  var data = block ? JSON.parse(block.textContent) : {};

  var plot = document.getElementById("scatter");
  if (plot ? data.scatter : false) { scatter(plot, data.scatter); }
  function scatter(svg, given) {
    var controls = document.getElementById("scatter-axes"), choose = [0, 1].map(function (axis) {
      var label = document.createElement("label"), list = document.createElement("select");
      label.append(axis ? "up " : "across ", list);
      given.columns.forEach(function (name, at) { list.add(new Option(name, at, false, at === axis)); });
      list.addEventListener("change", redraw);
      controls.append(label);
      return list;
    });
    controls.hidden = false;
    function redraw() {
      var a = Number(choose[0].value), b = Number(choose[1].value);
      var x = scale(a, given.left, given.right), y = scale(b, given.bottom, given.top);
      all("g.points circle", svg).forEach(function (point, i) {
        var row = given.rows[i];
        var known = row[a] !== null ? row[b] !== null : false;
        point.classList.toggle("gone", !known);
        if (known) { point.setAttribute("cx", x(row[a])); point.setAttribute("cy", y(row[b])); }
      });
      all("g.component", svg).forEach(function (group) {
        var own = given.components[group.dataset.k], line = "";
        for (var i = 0; 48 >= i; i += 1) {
          var angle = i / 24 * Math.PI, c = Math.cos(angle), s = Math.sin(angle);
          var va = own.cov[a][a], vb = own.cov[b][b], co = a === b ? va : own.cov[a][b];
          var first = Math.sqrt(va), rest = Math.sqrt(Math.max(vb - co * co / va, 0));
          line += (i ? " " : "") + x(own.mean[a] + 2 * first * c).toFixed(1) + ","
            + y(own.mean[b] + 2 * (co / first * c + rest * s)).toFixed(1);
        }
        group.querySelector("polyline").setAttribute("points", line);
        var label = group.querySelector("text");
        label.setAttribute("x", x(own.mean[a])); label.setAttribute("y", y(own.mean[b]) + 4);
      });
      ticks("tick-x", a, x, "x", 0);
      ticks("tick-y", b, y, "y", 4);
      all("text.title-x", svg)[0].textContent = given.columns[a];
      all("text.title-y", svg)[0].textContent = given.columns[b];
    }
    function ticks(name, column, place, attribute, shift) {
      var lo = given.ranges[column][0], hi = given.ranges[column][1], width = hi - lo;
      var step = Math.pow(10, Math.floor(Math.log10(width / 5)));
      step *= [1, 2, 5, 10, 20].filter(function (m) { return 5 >= width / (step * m); })[0];
      var value = Math.ceil(lo / step) * step;
      all("text." + name, svg).forEach(function (text) {
        var inside = hi >= value;
        text.textContent = inside ? Number(value.toPrecision(6)).toLocaleString("en").replace("-", "\u2212") : "";
        if (inside) { text.setAttribute(attribute, place(value) + shift); }
        value += step;
      });
    }
    function scale(column, begin, end) {
      var lo = given.ranges[column][0], hi = given.ranges[column][1];
      return function (value) { return begin + (value - lo) / (hi - lo) * (end - begin); };
    }
  }

  var words = document.getElementById("relevance");
  if (words ? data.words : false) { relevance(words, data.words); }
  function relevance(holder, given) {
    var label = document.createElement("label"), slider = document.createElement("input");
    var shown = document.createElement("output");
    slider.type = "range"; slider.min = 0; slider.max = 1; slider.step = given.step; slider.value = given.start;
    label.append("relevance ", slider, " ", shown);
    holder.append(label);
    holder.hidden = false;
    var cells = Object.keys(given.topics).map(function (k) {
      return [document.getElementById("words-" + k), given.topics[k]];
    }).filter(function (pair) { return pair[0]; });
    var box = cells.length ? cells[0][0].closest(".scroll") : null, rest = 0;
    function write(r, pair) {
      var order = pair[1].map(function (w) { return [r * w[1] + (1 - r) * (w[1] - given.overall[w[0]]), w[0]]; });
      order.sort(function (x, y) { return y[0] - x[0] || x[1] - y[1]; });
      pair[0].textContent = order.slice(0, given.most).map(function (w) { return given.names[w[1]]; }).join(", ");
    }
    // Lines that are out of sight are written when the slider rests.
    function redraw() {
      var r = Number(slider.value), frame = box ? box.getBoundingClientRect() : null;
      var isNear = cells.map(function (pair) {
        var place = pair[0].getBoundingClientRect();
        return frame ? !(frame.top - 200 > place.bottom || place.top > frame.bottom + 200) : true;
      });
      shown.textContent = r.toFixed(2);
      cells.forEach(function (pair, i) { if (isNear[i]) { write(r, pair); } });
      clearTimeout(rest);
      rest = setTimeout(function () {
        cells.forEach(function (pair, i) { if (!isNear[i]) { write(r, pair); } });
      }, 100);
    }
    slider.addEventListener("input", redraw);
    shown.textContent = Number(slider.value).toFixed(2);
  }

  all("[data-find]").forEach(function (field) {
    var table = document.getElementById(field.dataset.find), told = field.querySelector("output");
    field.hidden = false;
    field.querySelector("input").addEventListener("input", function (event) {
      var wanted = event.target.value.trim().toLowerCase(), n = 0, given = data.words;
      var at = given ? given.names.findIndex(function (name) { return name.toLowerCase() === wanted; }) : -1;
      var used = at >= 0 ? given.used[at] : [];
      var topics = used.map(function (part) { return String(part[0]); });
      all("tbody tr", table).forEach(function (row) {
        var has = topics.length ? topics.includes(row.dataset.k)
          : row.textContent.toLowerCase().includes(wanted);
        row.classList.toggle("gone", wanted ? !has : false);
        n += has ? 1 : 0;
      });
      told.textContent = !wanted ? "" : topics.length ? "used by " + used.map(function (part) {
        return part[0] + " (" + part[1] + " %)";
      }).join(", ") : n + " lines" + (n ? "" : ": not among the words shown");
    });
  });

  var strips = document.getElementById("strips");
  if (strips) { zoomable(strips, document.getElementById("strip-controls")); }
  function zoomable(svg, controls) {
    var left = Number(controls.dataset.left), names = data.courses || [];
    var width = svg.viewBox.baseVal.width, height = svg.viewBox.baseVal.height;
    var label = document.createElement("label"), slider = document.createElement("input");
    slider.type = "range"; slider.min = 1; slider.max = 12; slider.step = 0.5; slider.value = 1;
    label.append("zoom ", slider);
    controls.append(label);
    controls.hidden = false;
    var marks = all("rect, text, circle", svg).filter(function (e) {
      return !(e.tagName === "text" ? e.getAttribute("text-anchor") === "end" : false);
    }).map(function (e) {
      var name = e.tagName === "circle" ? "cx" : "x";
      return [e, name, Number(e.getAttribute(name)), Number(e.getAttribute("width"))];
    });
    var lines = all("polyline", svg).map(function (e) {
      return [e, e.getAttribute("points").trim().split(/\s+/).map(function (p) { return p.split(","); })];
    });
    slider.addEventListener("input", function () {
      var z = Number(slider.value), at = function (x) { return (left + (x - left) * z).toFixed(1); };
      marks.forEach(function (m) {
        m[0].setAttribute(m[1], at(m[2]));
        if (m[0].tagName === "rect") { m[0].setAttribute("width", (m[3] * z).toFixed(1)); }
      });
      lines.forEach(function (m) {
        m[0].setAttribute("points", m[1].map(function (p) { return at(Number(p[0])) + "," + p[1]; }).join(" "));
      });
      var wide = left + (width - left) * z;
      svg.setAttribute("viewBox", "0 0 " + wide + " " + height);
      svg.setAttribute("width", wide);
    });
    if (2 > names.length) { return; }
    var list = document.createElement("select"), more = document.createElement("label");
    names.forEach(function (name, at) { list.add(new Option(name, at)); });
    more.append("column below ", list);
    controls.append(more);
    list.addEventListener("change", function () {
      all("polyline.course", svg).forEach(function (line) {
        line.classList.toggle("gone", !line.classList.contains("course-" + list.value));
      });
    });
  }

  fromAddress();
})();
